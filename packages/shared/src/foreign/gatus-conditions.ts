import { dayMs } from "../time.ts";
import type { Json } from "../json.ts";
import { expectedStatus, jsonOperators } from "./http-check.ts";
import type { Item } from "./item.ts";
import { duration } from "./values.ts";

const allCodes = Array.from({ length: 500 }, (_, at) => at + 100);

/** The conditions of an endpoint, as expectations. What cannot be said is noted. */
export class Expected {
  readonly #item: Item;
  #codes: number[] | null = null;
  readonly #json: Json[] = [];
  #matches: string | null = null;
  #notMatches: string | null = null;
  #bodyIs: string | null = null;
  #bodyIsNot: string | null = null;
  #rcode = "NOERROR";
  #others = 0;
  #isStatusUnread = false;
  contains: string | null = null;
  downAboveMs: number | null = null;
  certificateDays: number | null = null;
  domainDays: number | null = null;
  constructor(item: Item, conditions: readonly string[]) {
    this.#item = item;
    for (const condition of conditions) if (!this.#read(condition)) this.#leaveOut(condition);
  }

  /** True where nothing but days left is asked for. */
  get isOnlyExpiry(): boolean {
    return this.#others === 0;
  }

  /** Body and return code of a DNS answer. */
  ofDns(): Json {
    if (this.#rcode !== "NOERROR") return { expected_rcode: this.#rcode };
    const isPlain = (pattern: string | null, text: string | null): boolean => pattern === null || text !== null;
    if (!isPlain(this.#matches, this.#bodyIs) || !isPlain(this.#notMatches, this.#bodyIsNot)) this.#noteLeftOut();
    const contains = this.contains ?? this.#bodyIs;
    return {
      expected_contains: contains ?? undefined,
      expected_absent: this.#bodyIsNot === null ? undefined : [this.#bodyIsNot],
    };
  }

  /** Any status is up without a condition. */
  ofHttp(timeout: number): Json {
    this.#noteReturnCode();
    // A status that cannot be read is not any status.
    const codes = this.#codes ?? (this.#isStatusUnread ? null : allCodes);
    if (codes?.length === 0) this.#item.refuse("its conditions of [STATUS] exclude each other");
    const json = this.#json.slice(0, 10);
    if (this.#json.length > 10) this.#item.note("has more than ten conditions of its body: the first ten", "silent");
    return {
      ...(codes === null ? {} : expectedStatus(codes)),
      expected_body_contains: this.contains ?? undefined,
      expected_body_matches: this.#matches ?? undefined,
      expected_body_not_matches: this.#notMatches ?? undefined,
      expected_json: json.length === 0 ? undefined : json,
      down_above_ms: this.downAboveMs === null || this.downAboveMs > timeout ? undefined : this.downAboveMs,
    };
  }

  /** For a kind whose body is compared by `contains` at most. */
  noteBody({ hasContains }: { hasContains: boolean }): void {
    this.#noteReturnCode();
    const isCompared = this.#json.length > 0 || this.#matches !== null || this.#notMatches !== null;
    if (isCompared || this.#codes !== null || (this.contains !== null && !hasContains)) this.#noteLeftOut();
  }

  #noteLeftOut(): void {
    this.#item.note("its conditions of [BODY] and [STATUS] are left out: the check has none", "silent");
  }

  #noteReturnCode(): void {
    if (this.#rcode !== "NOERROR")
      this.#item.note("its condition of [DNS_RCODE] is left out: the check is no DNS", "silent");
  }

  #leaveOut(condition: string): void {
    this.#others++;
    this.#item.note(`the condition ${condition.slice(0, 100)} is left out`, "silent");
  }

  #read(condition: string): boolean {
    const { left, op, right } = sidesOf(condition);
    // 36 h are two days: a warning comes early, never late. A number is ms.
    const days = Math.ceil(duration(right, /^\d{1,15}$/.test(right) ? Number(right) : NaN) / dayMs);
    if (left === "[CERTIFICATE_EXPIRATION]" || left === "[DOMAIN_EXPIRATION]") {
      if (!/^>=?$/.test(op) || Number.isNaN(days)) return false;
      if (left === "[DOMAIN_EXPIRATION]") this.domainDays = Math.max(this.domainDays ?? 0, days);
      else this.certificateDays = Math.max(this.certificateDays ?? 0, days);
      return true;
    }
    const isRead = this.#readOther(left, op, right);
    if (isRead) this.#others++;
    return isRead;
  }

  #readOther(left: string, op: string, right: string): boolean {
    if (left === "[CONNECTED]") {
      if (op === "==" && right === "true") return true;
      this.#item.refuse("is up where no connection is possible: a check that must fail does not exist here");
      return true;
    }
    if (left === "[DNS_RCODE]") {
      if (op === "==" && /^(?:NOERROR|NXDOMAIN|SERVFAIL|REFUSED)$/.test(right)) this.#rcode = right;
      else this.#item.refuse(`no check expects the return code of ${`${op} ${right}`.slice(0, 60)}`);
      return true;
    }
    if (left === "[STATUS]") {
      const isRead = this.#readStatus(op, right);
      this.#isStatusUnread ||= !isRead;
      return isRead;
    }
    if (left === "[RESPONSE_TIME]") {
      const limit = duration(right, Number(right));
      if (!/^<=?$/.test(op) || !(limit >= 1 && limit <= 60_000)) return false;
      this.downAboveMs = Math.min(this.downAboveMs ?? Infinity, Math.floor(limit));
      return true;
    }
    if (left === "[BODY]") return this.#readBody(op, right);
    const [, path] = /^\[BODY\]((?:\.[\w-]+|\[\d{1,6}\])+)$/.exec(left) ?? [];
    if (path !== undefined) return this.#readJson(path, op, right);
    const [, has] = /^has\(\[BODY\]((?:\.[\w-]+|\[\d{1,6}\])+)\)$/.exec(left) ?? [];
    if (has === undefined || op !== "==" || !/^(?:true|false)$/.test(right)) return false;
    this.#json.push({ path: jsonPath(has), op: right === "true" ? "exists" : "absent" });
    return true;
  }

  #readStatus(op: string, right: string): boolean {
    const glob = globIn(right);
    if (glob !== undefined) {
      if (!/^[!=]=$/.test(op) || !/^[\d*?]{1,8}$/.test(glob)) return false;
      this.#codes = (this.#codes ?? allCodes).filter((code) => fitsGlob(glob, String(code)) === (op === "=="));
      return true;
    }
    const listed = (listIn(right) ?? [right]).map(Number);
    if (listed.some((code) => !Number.isInteger(code)) || (listed.length > 1 && op !== "==" && op !== "!="))
      return false;
    const [value] = listed;
    const fits: Readonly<Record<string, (code: number) => boolean>> = {
      "==": (code) => listed.includes(code),
      "!=": (code) => !listed.includes(code),
      "<": (code) => code < value!,
      "<=": (code) => code <= value!,
      ">": (code) => code > value!,
      ">=": (code) => code >= value!,
    };
    this.#codes = (this.#codes ?? allCodes).filter(fits[op]!);
    return true;
  }

  #readBody(op: string, right: string): boolean {
    const glob = globIn(right);
    const inside = glob === undefined ? undefined : /^\*([^*?[\]\\]+)\*$/s.exec(glob)?.[1];
    if (op === "==" && inside !== undefined && this.contains === null && inside.length <= 1000) {
      this.contains = inside;
      return true;
    }
    const pattern = glob === undefined ? anyOf(listIn(right) ?? [right]) : globPattern(glob);
    if (pattern.length > 500) return false;
    const literal = glob === undefined && listIn(right) === undefined ? right : null;
    if (op === "==" && this.#matches === null) [this.#matches, this.#bodyIs] = [pattern, literal];
    else if (op === "!=" && this.#notMatches === null) [this.#notMatches, this.#bodyIsNot] = [pattern, literal];
    else return false;
    return true;
  }

  #readJson(path: string, op: string, right: string): boolean {
    const glob = globIn(right);
    const listed = listIn(right);
    if (glob !== undefined || listed !== undefined) {
      const pattern = glob === undefined ? anyOf(listed!) : globPattern(glob);
      if (op !== "==" || pattern.length > 500) return false;
      // Gatus compares the text of any JSON value.
      if (glob === undefined ? listed!.some(isOtherJson) : !/^[a-z]/i.test(glob))
        this.#item.note("its pattern or list fits texts only: change it where the JSON has a number or a list");
      this.#json.push({ path: jsonPath(path), op: "matches", value: pattern });
      return true;
    }
    if (right.length > 1000 || right.startsWith("[")) return false;
    const scalar: unknown = isOtherJson(right) ? JSON.parse(right) : right;
    if (!/^[!=]=$/.test(op) && typeof scalar !== "number") return false;
    // Gatus compares numbers of JSON and texts, in four bases.
    if (/^[+-]?0[xob]/i.test(right))
      this.#item.note("its numbers in another base are compared as texts: change the condition where they differ");
    if (typeof scalar !== "string" && /^[!=]=$/.test(op))
      this.#item.note(
        "a number or boolean of its conditions is none in quotation marks: change it where the JSON has text",
        "detail",
      );
    this.#json.push({ path: jsonPath(path), op: jsonOperators.get(op)!, value: scalar });
    return true;
  }
}

/** True where a short text fits a short glob of `*` and `?`. */
function fitsGlob(glob: string, text: string): boolean {
  const [first, rest] = [glob[0], glob.slice(1)];
  if (first === undefined) return text === "";
  if (first === "*") return fitsGlob(rest, text) || (text !== "" && fitsGlob(glob, text.slice(1)));
  return text !== "" && (first === "?" || first === text[0]) && fitsGlob(rest, text.slice(1));
}

/** A JSON value that is no text. */
const isOtherJson = (text: string): boolean => /^(?:-?\d{1,15}(?:\.\d{1,15})?|true|false|null)$/.test(text);

/** The sides of a condition; the placeholder is on the left. */
function sidesOf(condition: string): { left: string; op: string; right: string } {
  const [, left = "", op = "", right = ""] = /^(.*?) (==|!=|<=|>=|>|<) (.*)$/s.exec(condition.trim()) ?? [];
  const isTurned = /^[!=]=$/.test(op) && !left.includes("[") && /^\[[A-Z_]+\]/.test(right.trim());
  return isTurned ? { left: right.trim(), op, right: left } : { left, op, right: right.trim() };
}

/** The glob of `pat(*.example.org)`; undefined for another text. */
const globIn = (right: string): string | undefined => /^pat\((.*)\)$/s.exec(right)?.[1];

/** The values of `any(200, 204)`; undefined for another text. */
const listIn = (right: string): string[] | undefined =>
  /^any\((.*)\)$/s
    .exec(right)?.[1]
    ?.split(",")
    .map((one) => one.trim());

/** `.data[0].my-id` as JSONPath. */
const jsonPath = (path: string): string =>
  `$${path.replaceAll(/\.([\w-]+)/g, (_, name: string) => (/^[A-Za-z_]\w*$/.test(name) ? `.${name}` : `['${name}']`))}`;

const quoted = (literal: string): string => literal.replaceAll(/[\\^$.*+?()[\]{}|]/g, "\\$&");
const anyOf = (literals: readonly string[]): string => `^(?:${literals.map(quoted).join("|")})$`;

/** A glob of Gatus (`*`, `?`) as a pattern of the whole text. */
const globPattern = (glob: string): string =>
  `(?s)^${glob.replaceAll(/[*?]|[^*?]+/g, (part) => (part === "*" ? ".*" : part === "?" ? "." : quoted(part)))}$`;
