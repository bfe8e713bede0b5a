import { isUtf8 } from "node:buffer";

/*
 * HTTP/1.1 responses, read as curl 7.88 reads them: whatever is common in the wild and has one meaning is accepted,
 * and a faulty field gives a warning. Each connection has one request, so no response can be taken for another one.
 */

/** Limit of response heads and of trailers, bytes; browsers stop at 256 KiB, common servers at 8. */
const maxHeadBytes = 64 * 1024;
/** Limit of the line before a chunk, bytes. */
const maxChunkLine = 16 * 1024;
/** Limit of 1xx responses before the final one (RFC 9110 section 15.2). */
const maxInformational = 32;
/** Faulty fields that are named. */
const maxFaults = 10;
/** Bytes of a response that tell whether it is one. */
const maxBeginning = 12;

/** A response that cannot be read, in words. */
export class ResponseError extends Error {
  override readonly name = "ResponseError";
}

const invalid = (reason: string): ResponseError => new ResponseError(`the answer is not valid HTTP: ${reason}`);
export const brokenBody = "connection closed in the middle of the body";

/** The head of a response, and whether the rest has arrived. */
export class Response {
  readonly version: string;
  readonly status: number;
  readonly reason: string;
  /** Names as received, and values: UTF-8 where the bytes are valid UTF-8, else latin1. */
  readonly fields: [name: string, value: string][] = [];
  complete = false;
  /** True where the length of the body was announced in bytes. */
  hasLength = false;

  constructor(version: string, status: number, reason: string) {
    this.version = version;
    this.status = status;
    this.reason = reason;
  }

  /** Every value of a field; `name` in lower case. */
  values(name: string): string[] {
    return this.fields.filter(([own]) => own.length === name.length && own.toLowerCase() === name).map(([, it]) => it);
  }

  /** The first value of a field; `name` in lower case. */
  value(name: string): string | undefined {
    return this.fields.find(([own]) => own.length === name.length && own.toLowerCase() === name)?.[1];
  }

  /** Codings in the order in which they were applied (RFC 9110 section 8.4), without `identity` and `chunked`. */
  codings(): string[] {
    return [...this.values("content-encoding"), ...this.values("transfer-encoding")]
      .flatMap((value) => value.split(","))
      .map((coding) => coding.trim().toLowerCase())
      .filter((coding) => coding !== "" && coding !== "identity" && coding !== "chunked");
  }
}

export interface ResponseHooks {
  head(response: Response): void;
  data(chunk: Buffer): void;
  end(): void;
  warn(text: string): void;
}

type State =
  | "status"
  | "fields"
  | "length"
  | "until close"
  | "chunk size"
  | "chunk"
  | "after chunk"
  | "trailers"
  | "done";

const statusLine = /^HTTP\/(1\.[01]|2(?:\.0)?) +([1-9]\d\d)(?!\d)(.*)$/is;
const usualStatusLine = /^HTTP\/1\.[01] \d{3}(?: |$)/;
const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
// eslint-disable-next-line no-control-regex
const control = /[\0-\x08\x0a-\x1f\x7f]/;
const beyondAscii = /[\x80-\xff]/;

/** UTF-8 where the bytes of a latin1 text are valid UTF-8. */
function textOf(latin1: string): string {
  if (!beyondAscii.test(latin1)) return latin1;
  const bytes = Buffer.from(latin1, "latin1");
  return isUtf8(bytes) ? bytes.toString() : latin1;
}

/** Reads one response from the bytes of a connection. */
export class ResponseReader {
  readonly #hooks: ResponseHooks;
  readonly #hasNoBody: boolean;
  #state: State = "status";
  #response: Response | null = null;
  /** The parts of a line that has not ended. */
  #parts: Buffer[] = [];
  /** Bytes of lines that count for a limit. */
  #lineBytes = 0;
  #remaining = 0;
  #informational = 0;
  /** Fields in which a fault was found already. */
  #faulty: string[] | null = null;
  #hasLoneLf = false;

  constructor(method: string, hooks: ResponseHooks) {
    this.#hooks = hooks;
    this.#hasNoBody = method === "HEAD";
  }

  get isDone(): boolean {
    return this.#state === "done";
  }

  /** True once any part of a head has arrived. */
  get hasBegun(): boolean {
    return this.#lineBytes > 0 || this.#state !== "status";
  }

  /** Takes bytes of the connection; those after the end of the response are ignored. Throws {@link ResponseError}. */
  push(bytes: Buffer): void {
    let at = 0;
    while (at < bytes.length && this.#state !== "done") {
      if (this.#state === "length" || this.#state === "chunk" || this.#state === "until close") {
        const part = this.#state === "until close" ? bytes.subarray(at) : bytes.subarray(at, at + this.#remaining);
        at += part.length;
        this.#remaining -= part.length;
        this.#hooks.data(part);
        if (this.#remaining > 0 || this.#state === "until close") continue;
        if (this.#state === "length") this.#end();
        else this.#state = "after chunk";
        continue;
      }
      const lf = bytes.indexOf(10, at);
      const end = lf === -1 ? bytes.length : lf + 1;
      this.#hold(bytes.subarray(at, end));
      at = end;
      if (lf !== -1) this.#line();
    }
  }

  /** The connection has ended. Throws {@link ResponseError} where the response had not. */
  finish(): void {
    if (this.#state === "done") return;
    if (this.#state === "until close") return this.#end();
    if (this.#response === null || (this.#state === "fields" && this.#parts.length > 0))
      throw new ResponseError("connection closed without a response");
    if (this.#state !== "fields") throw new ResponseError(brokenBody);
    // As curl: a head whose last line is complete needs no empty line.
    this.#fault("", "it ends without an empty line");
    this.#headEnds();
    this.finish();
  }

  #hold(part: Buffer): void {
    this.#parts.push(part);
    this.#lineBytes += part.length;
    const max = this.#state === "chunk size" ? maxChunkLine : maxHeadBytes;
    if (this.#lineBytes > max)
      throw new ResponseError(
        this.#state === "chunk size"
          ? "the response body has chunk extensions larger than 16 KiB"
          : `the response ${this.#state === "trailers" ? "trailers are" : "head is"} larger than ${max / 1024} KiB`,
      );
    // A banner or a binary protocol may never send the end of a line.
    if (this.#state === "status" && this.#lineBytes - part.length < maxBeginning)
      this.#mustBegin(Buffer.concat(this.#parts).subarray(0, maxBeginning));
  }

  #mustBegin(bytes: Buffer): void {
    // A server's HTTP/2 starts with a SETTINGS frame on stream 0 (RFC 9113 section 3.4).
    if (bytes.length >= 9 && bytes[3] === 0x04 && bytes.readUInt32BE(5) === 0)
      throw new ResponseError("the server speaks HTTP/2 only, and was asked in HTTP/1.1");
    if (bytes.length < 9 && bytes[0] === 0) return;
    const start = bytes
      .toString("latin1")
      .replace(/^[\r\n]+/, "")
      .slice(0, 5)
      .toLowerCase();
    if (!"http/".startsWith(start)) throw invalid("it does not begin with HTTP/");
  }

  /** A line has ended: what it is depends on the state. */
  #line(): void {
    const bytes = this.#parts.length === 1 ? this.#parts[0]! : Buffer.concat(this.#parts);
    this.#parts = [];
    const hasCr = bytes[bytes.length - 2] === 13;
    const line = bytes.toString("latin1", 0, bytes.length - (hasCr ? 2 : 1));
    switch (this.#state) {
      case "status":
        return this.#status(line, hasCr);
      case "fields":
        if (!hasCr) this.#hasLoneLf = true;
        return line === "" ? this.#headEnds() : this.#field(line);
      case "chunk size":
        return this.#chunkSize(line);
      case "after chunk":
        if (line !== "") throw invalid("a chunk is longer than its size");
        this.#lineBytes = 0;
        this.#state = "chunk size";
        return;
      default:
        if (line === "") this.#end();
        else if (!line.includes(":") || line.includes("\0"))
          throw invalid("a trailer has no colon, or a NUL character");
    }
  }

  #status(line: string, hasCr: boolean): void {
    if (line === "") return this.#fault("", "an empty line is before it");
    if (line.includes("\0")) throw invalid("the head has a NUL character");
    const [, version, status, reason] = statusLine.exec(line) ?? [];
    if (version === undefined) throw invalid("the status line has no version of HTTP/1 and a status code");
    if (!usualStatusLine.test(line) || control.test(line)) this.#fault("", "the status line is unusual");
    if (!hasCr) this.#hasLoneLf = true;
    this.#response = new Response(
      version.length === 1 ? `${version}.0` : version,
      Number(status),
      textOf(reason!.trim()),
    );
    this.#state = "fields";
  }

  #field(line: string): void {
    const { fields } = this.#response!;
    if (line.includes("\0")) throw invalid("the head has a NUL character");
    if (line.startsWith(" ") || line.startsWith("\t")) {
      const last = fields.at(-1);
      if (last === undefined) throw invalid("the first field begins with a space");
      if (last[1] === "" && last[0].toLowerCase() === "content-length") throw invalid("Content-Length is no number");
      const part = textOf(line.trim());
      if (part !== "") last[1] = last[1] === "" ? part : `${last[1]} ${part}`;
      return this.#fault(last[0], "its value is on several lines");
    }
    const colon = line.indexOf(":");
    if (colon === -1) throw invalid("a line of the head has no colon");
    const written = line.slice(0, colon);
    const name = written.trim();
    const after = line.slice(colon + 1);
    const value = after.trim();
    fields.push([textOf(name), textOf(value)]);
    if (written !== name) this.#fault(name, "a space is before its colon");
    else if (!token.test(name)) this.#fault(name, "its name has a character that names have not");
    else if (control.test(after)) this.#fault(name, "its value has a control character");
  }

  #headEnds(): void {
    const response = this.#response!;
    const { status } = response;
    if (this.#hasLoneLf) this.#fault("", "lines end without CR");
    if (status < 200 && status !== 101) {
      if (++this.#informational > maxInformational)
        throw new ResponseError(`more than ${maxInformational} interim (1xx) responses`);
      this.#state = "status";
      this.#response = null;
      this.#lineBytes = 0;
      return;
    }
    const isChunked = response
      .values("transfer-encoding")
      .some((value) => value.split(",").some((coding) => coding.trim().toLowerCase() === "chunked"));
    const length = this.#length(response, isChunked);
    this.#lineBytes = 0;
    this.#state = isChunked ? "chunk size" : length === null ? "until close" : "length";
    this.#remaining = length ?? 0;
    response.hasLength = this.#state === "length";
    const hasNoBody = this.#hasNoBody || status === 204 || status === 304 || status === 101;
    this.#hooks.head(response);
    if (hasNoBody || (this.#state === "length" && length === 0)) this.#end();
  }

  /** Bytes of the body; null where none are announced that can be counted. The last value counts, as for curl. */
  #length(response: Response, isChunked: boolean): number | null {
    const values = response.values("content-length");
    if (values.length === 0) return null;
    const digits = values.map((value) => {
      const [, found] = /^\+?(\d+)/.exec(value) ?? [];
      if (found === undefined) throw invalid("Content-Length is no number");
      return found;
    });
    const length = Number(digits.at(-1));
    const isSafe = Number.isSafeInteger(length);
    if (values.length > 1 || digits[0] !== values[0] || !isSafe) this.#fault("Content-Length", "it is not one number");
    else if (isChunked) this.#fault("Content-Length", "the body is chunked");
    return isSafe ? length : null;
  }

  #chunkSize(line: string): void {
    const [, size] = /^([0-9A-Fa-f]{1,16})(?![0-9A-Fa-f])/.exec(line) ?? [];
    if (size === undefined) throw invalid("the size of a chunk is no number");
    this.#remaining = Number.parseInt(size, 16);
    this.#lineBytes = 0;
    this.#state = this.#remaining === 0 ? "trailers" : "chunk";
  }

  #end(): void {
    this.#state = "done";
    this.#response!.complete = true;
    this.#hooks.end();
  }

  /** One warning for each field, the empty name for the head itself. */
  #fault(field: string, words: string): void {
    const faulty = (this.#faulty ??= []);
    if (faulty.length >= maxFaults || faulty.includes(field)) return;
    faulty.push(field);
    this.#hooks.warn(`malformed head: ${field === "" ? "" : `${textOf(field)}: `}${words}`);
  }
}
