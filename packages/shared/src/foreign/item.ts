/** How much a difference matters: what stays silent after the import, what behaves otherwise, what is only shown. */
export const weights = ["silent", "behaviour", "detail"] as const;
export type Weight = (typeof weights)[number];

interface Note {
  readonly reason: string;
  readonly weight: Weight;
}

/** A thing of the other product, and what became of it. */
export class Item {
  readonly kind: string;
  readonly name: string;
  /** Its key in the file; null for none. */
  key: string | null = null;
  readonly notes: Note[] = [];
  isRefused = false;

  constructor(kind: string, name: string) {
    this.kind = kind;
    this.name = name;
  }

  /** Carried over, but not the same. */
  note(reason: string, weight: Weight = "behaviour"): void {
    if (!this.notes.some((one) => one.reason === reason)) this.notes.push({ reason, weight });
  }

  /** Not carried over. Earlier notes are of no interest then. */
  refuse(reason: string, weight: Weight = "behaviour"): null {
    if (!this.isRefused) this.notes.length = 0;
    this.isRefused = true;
    this.note(reason, weight);
    return null;
  }

  /** Refused, because no check does what a monitor of this kind did. */
  refuseKind(kind: string): null {
    const named = kind.slice(0, 40) || "without a name";
    return this.refuse(`no check for the kind ${named}: an exec check can run a plugin for it`);
  }
}
