import { Composer, type CST, type Document, isAlias, isMap, isScalar, isSeq, Lexer, LineCounter, Parser } from "yaml";
import type { Mistake, Place, Position } from "./position.ts";

/** Bytes of one file. */
export const maxFileBytes = 1_048_576;
const maxDepth = 32;
const maxAliases = 1000;
/** Times its own size that a file may have after its aliases are expanded. */
const maxGrowth = 10;
/** Mistakes of one file. */
const maxMistakes = 100;

const tooDeep = `More than ${maxDepth} levels are nested here.`;

/** A file that was read: its value as JSON has it, and where each part of it stands. */
export interface ParsedFile {
  /** Undefined for a file without content. */
  readonly value: unknown;
  readonly position: Position;
  readonly mistakes: readonly Mistake[];
}

/**
 * Parses YAML 1.2 or JSON. The core schema, but for numbers with a leading zero, which stay text. Refused: tags,
 * duplicate keys, keys that are no text, 32 levels, 1,000 aliases, ten times the file's size behind aliases, a second
 * document. The time is linear in the size of the text.
 */
export function parseYaml(text: string, file: string): ParsedFile {
  return new Reader(text, file).read();
}

class TooMuch extends Error {}

class Reader {
  readonly #text: string;
  readonly #file: string;
  readonly #lines = new LineCounter();
  readonly #mistakes: Mistake[] = [];
  readonly #anchors = new Map<string, unknown>();
  #aliases = 0;
  #size = 0;

  constructor(text: string, file: string) {
    this.#text = text;
    this.#file = file;
  }

  read(): ParsedFile {
    let value: unknown;
    let position: Position = { at: this.#place(0), children: new Map() };
    try {
      const [document, second] = this.#compose();
      if (second !== undefined)
        this.#add(second.range[0], "One file has one document; put the second one into another.");
      if (document?.contents != null && !isEmpty(document)) [value, position] = this.#convert(document.contents, 1);
    } catch (error) {
      if (!(error instanceof TooMuch)) throw error;
    }
    return { value, position, mistakes: this.#mistakes };
  }

  /** The documents of the text; none where the text is no YAML. */
  #compose(): Document.Parsed[] {
    const tokens = this.#parse();
    this.#checkTokens(tokens);
    if (this.#mistakes.length > 0) return [];
    // Duplicate keys are found below: the library compares every key with every other one.
    const composer = new Composer({ schema: "failsafe", uniqueKeys: false, strict: true });
    const documents = [...composer.compose(tokens, false, this.#text.length)] as Document.Parsed[];
    for (const { errors } of documents)
      for (const { pos, message } of errors) this.#addSyntax(pos[0], message.replaceAll(/\s+/g, " "));
    return this.#mistakes.length > 0 ? [] : documents;
  }

  /** Stops early where levels are nested by the thousand, which takes the parser a second for 200 kB. */
  #parse(): CST.Token[] {
    const parser = new Parser(this.#lines.addNewLine);
    const tokens: CST.Token[] = [];
    this.#lines.addNewLine(0);
    for (const lexeme of new Lexer().lex(this.#text)) {
      tokens.push(...parser.next(lexeme));
      // A level has at most its collection and what is being read in it.
      if (parser.stack.length > 2 * maxDepth + 4) this.#give(this.#place(parser.offset), tooDeep);
    }
    tokens.push(...parser.end());
    return tokens;
  }

  /** Refuses tags and depth before the composer, which is recursive, sees them. */
  #checkTokens(tokens: readonly CST.Token[]): void {
    const open: { token: CST.Token; depth: number }[] = tokens.map((token) => ({ token, depth: 0 })).reverse();
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      const { token, depth } = next;
      if (token.type === "tag") this.#add(token.offset, `Tags such as ${token.source.slice(0, 40)} are not read.`);
      if (token.type === "directive" && token.source.startsWith("%TAG")) this.#add(token.offset, "Tags are not read.");
      const isCollection = "items" in token;
      if (isCollection && depth >= maxDepth) {
        this.#add(token.offset, tooDeep);
        return;
      }
      const inner = isCollection ? depth + 1 : depth;
      if (token.type === "document") {
        for (const it of token.start) open.push({ token: it as CST.Token, depth });
        if (token.value !== undefined) open.push({ token: token.value, depth });
      }
      if (!isCollection) continue;
      for (const { start, key, sep, value } of token.items as CST.CollectionItem[]) {
        for (const it of [...start, ...(sep ?? [])]) open.push({ token: it as CST.Token, depth: inner });
        if (key != null) open.push({ token: key, depth: inner });
        if (value !== undefined) open.push({ token: value, depth: inner });
      }
    }
  }

  #convert(node: unknown, depth: number, keyAt?: Place): [value: unknown, position: Position] {
    const { anchor, range } = node as { anchor?: string; range?: [number, number, number] };
    const at = this.#place(range?.[0] ?? 0);
    const leaf = (value: unknown): [unknown, Position] => [value, { at, ...keyed(keyAt), children: new Map() }];
    if (depth > maxDepth + 1) this.#give(at, tooDeep);
    this.#size += 1;
    let made: [unknown, Position];
    if (isAlias(node)) return this.#expand(node.source, at, depth, keyAt) ?? leaf(null);
    else if (isScalar(node)) {
      const { type, source = "", value } = node as { type?: string; source?: string; value: unknown };
      this.#size += source.length;
      made = leaf(type === "PLAIN" ? this.#plain(source, at) : typeof value === "string" ? value : null);
    } else if (isSeq(node)) {
      const children = new Map<string, Position>();
      const items = node.items.map((item, index) => {
        const [value, position] = this.#convert(item, depth + 1);
        children.set(String(index), position);
        return value;
      });
      made = [items, { at, ...keyed(keyAt), children }];
    } else if (isMap(node)) made = this.#convertMap(node.items, at, depth, keyAt);
    else made = leaf(null);
    if (this.#size > maxGrowth * Math.max(this.#text.length, 1000))
      this.#give(at, `With its aliases expanded, the file is more than ${maxGrowth} times as large.`);
    // Only now: an alias inside of its own anchor leads nowhere.
    if (anchor !== undefined) this.#anchors.set(anchor, node);
    return made;
  }

  #convertMap(
    items: readonly { key: unknown; value: unknown }[],
    at: Place,
    depth: number,
    keyAt: Place | undefined,
  ): [unknown, Position] {
    const entries = new Map<string, unknown>();
    const children = new Map<string, Position>();
    for (const { key, value } of items) {
      const offset = (key as { range?: [number, number, number] } | null)?.range?.[0] ?? 0;
      const place = this.#place(offset);
      const name = isScalar(key) ? ((key as { source?: string }).source ?? null) : null;
      if (name === null || !isScalar(key) || typeof key.value !== "string" || key.value === "") {
        this.#addAt(isAlias(key) || name !== null ? place : at, "A key must be a text.");
        continue;
      }
      const text = key.value;
      this.#size += text.length;
      if (text === "__proto__") this.#addAt(place, "__proto__ is not allowed as a key.");
      else if (text === "<<")
        this.#addAt(place, "YAML 1.2 has no merge keys; use defaults, or an alias for a whole value.");
      else if (entries.has(text)) {
        const { line } = children.get(text)?.key ?? place;
        this.#addAt(place, `The key ${short(text)} stands here twice; the first one is in line ${line}.`);
      } else {
        const [converted, position] = this.#convert(value, depth + 1, place);
        entries.set(text, converted);
        children.set(text, position);
      }
    }
    return [Object.fromEntries(entries), { at, ...keyed(keyAt), children }];
  }

  #expand(name: string, at: Place, depth: number, keyAt: Place | undefined): [unknown, Position] | null {
    const node = this.#anchors.get(name);
    if (node === undefined) {
      const isName = /^[\w-]+$/.test(name);
      this.#addAt(
        at,
        isName ? `The alias *${short(name)} has no anchor before it, or stands inside of it.` : starWords,
      );
      return null;
    }
    if (++this.#aliases > maxAliases) this.#give(at, `A file has at most ${maxAliases} aliases.`);
    const [value, position] = this.#convert(node, depth);
    return [value, { at: position.at, ...keyed(keyAt), children: position.children }];
  }

  /** A scalar without quotes by the core schema; `010` and what JSON has no number for stay text. */
  #plain(source: string, at: Place): unknown {
    if (/^(?:|~|null|Null|NULL)$/.test(source)) return null;
    if (/^(?:true|True|TRUE)$/.test(source)) return true;
    if (/^(?:false|False|FALSE)$/.test(source)) return false;
    const isInteger = /^(?:[-+]?(?:0|[1-9]\d*)|0o[0-7]+|0x[\dA-Fa-f]+)$/.test(source);
    if (!isInteger && !/^[-+]?(?:\.\d+|(?:0|[1-9]\d*)(?:\.\d*)?)(?:[eE][-+]?\d+)?$/.test(source)) return source;
    const number = Number(source);
    if (Number.isFinite(number) && (!isInteger || Number.isSafeInteger(number)))
      return Object.is(number, -0) ? 0 : number;
    this.#addAt(at, `${short(source)} is too large for a number; put it into quotes if it is a text.`);
    return null;
  }

  #place(offset: number): Place {
    const { line, col } = this.#lines.linePos(offset);
    return { file: this.#file, line: Math.max(line, 1), column: Math.max(col, 1) };
  }

  /** The first error of a line: the others follow from it. */
  #addSyntax(offset: number, words: string): void {
    const at = this.#place(offset);
    if (this.#mistakes.some(({ line }) => line === at.line)) return;
    const isVariable = this.#text.slice(Math.max(offset - 1, 0), offset + 1) === "${";
    const begin = Math.max(this.#text.lastIndexOf("\n", offset - 1) + 1, offset - 200);
    const line = this.#text.slice(begin, offset + 2);
    // A cron schedule such as */5 * * * * reads as an alias.
    const isStar = /(?:^|[:,[{-])[ \t]*\*\S*[ \t]/.test(line);
    this.#addAt(
      at,
      isVariable ? "Inside of { } and [ ] a ${NAME} stands in quotes." : isStar ? starWords : sentence(words),
    );
  }

  #add(offset: number, message: string): void {
    this.#addAt(this.#place(offset), message);
  }

  #addAt(at: Place, message: string): void {
    this.#mistakes.push({ ...at, message });
    if (this.#mistakes.length >= maxMistakes) throw new TooMuch();
  }

  #give(at: Place, message: string): never {
    this.#addAt(at, message);
    throw new TooMuch();
  }
}

const starWords = 'Put quotes around a value that begins with *, such as "*/5 * * * *".';
const keyed = (key: Place | undefined): { key?: Place } => (key === undefined ? {} : { key });
const short = (text: string): string => (text.length > 60 ? `${text.slice(0, 60)}…` : text);
const sentence = (text: string): string => (/[.!?]$/.test(text) ? text : `${text}.`);

/** True for a document of comments. */
const isEmpty = ({ contents }: Document.Parsed): boolean =>
  isScalar(contents) && contents.value === "" && (contents as { type?: string }).type === "PLAIN";
