/** A place in a file. */
export interface Place {
  readonly file: string;
  /** From 1. */
  readonly line: number;
  readonly column: number;
}

/** What is wrong at a place; no place for the files as a whole. */
export interface Mistake extends Partial<Place> {
  readonly message: string;
}

/** Where a value stands, and what is in it: as large as the value, where paths would be much larger. */
export interface Position {
  /** Of the value. */
  readonly at: Place;
  /** Of its key, where it has one. */
  readonly key?: Place;
  readonly children: ReadonlyMap<string, Position>;
}

/**
 * The place that an RFC 6901 pointer leads to. Where it leads to nothing, the deepest value on its way: an absent field
 * is a fault of the object that lacks it. `ofKey` asks for the place of the key.
 */
export function placeOf(root: Position, pointer: string, ofKey = false): Place {
  let here = root;
  for (const segment of pointer.split("/").slice(1)) {
    const child = here.children.get(segment.replaceAll("~1", "/").replaceAll("~0", "~"));
    // The object that lacks a field is found by its name.
    if (child === undefined) return here.key ?? here.at;
    here = child;
  }
  return ofKey ? (here.key ?? here.at) : here.at;
}

/** `file:line:column: words`, what editors and CI jump to. */
export const mistakeLine = ({ file, line, column, message }: Mistake): string =>
  file === undefined ? message : `${file}:${line ?? 1}:${column ?? 1}: ${message}`;
