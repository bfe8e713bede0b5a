import { recordTypes } from "@statusmesh/shared/checks/dns";
import type { Check } from "@statusmesh/shared/foreign/check";
import type { Item } from "@statusmesh/shared/foreign/item";
import { flag, type Row, row, text, texts } from "@statusmesh/shared/foreign/values";
import type { Json } from "@statusmesh/shared/json";
import { hostAndPort } from "@statusmesh/shared/url";

const expectable: ReadonlySet<string> = new Set(["NXDOMAIN", "SERVFAIL", "REFUSED"]);
/** Names of return codes that exporters know (RFC 6895 section 2.3). */
const codes: ReadonlySet<string> = new Set(
  (
    "NOERROR FORMERR SERVFAIL NXDOMAIN NOTIMP REFUSED YXDOMAIN YXRRSET NXRRSET NOTAUTH NOTZONE BADSIG BADVERS BADKEY " +
    "BADTIME BADMODE BADNAME BADALG BADTRUNC BADCOOKIE"
  ).split(" "),
);

/** The check of a dns module, whose target is the name server. Null where no check gives its verdict. */
export function dnsOf(
  item: Item,
  of: Row,
  { host, port, timeout }: { host: string; port: number; timeout: number },
): Check | null {
  if (flag(of["dns_over_tls"])) return item.refuse("asks its name server over TLS, which DNS checks do not");
  const dnsClass = text(of["query_class"]).toUpperCase();
  if (dnsClass !== "" && dnsClass !== "IN")
    return item.refuse(`asks for records of the class ${dnsClass.slice(0, 20)}`);
  const type = text(of["query_type"]).toUpperCase();
  if (type !== "" && type !== "ANY" && !(recordTypes as readonly string[]).includes(type))
    return item.refuse(`asks for records of the type ${type.slice(0, 40)}, which DNS checks do not`);
  const code = codeOf(item, texts(of["valid_rcodes"]));
  if (code === null) return null;
  if (of["recursion_desired"] !== undefined && !flag(of["recursion_desired"]))
    item.note("asks its name server without recursion: the check asks for it, as resolvers do");
  if (text(of["transport_protocol"]) === "tcp") item.note("asks over UDP first", "detail");
  if (type === "" || type === "ANY")
    item.note("asks for records of any type: the check asks for A records, set record_type");
  if (code === "NOERROR") item.note("an answer without records is down, where the exporter accepts it", "detail");
  for (const name of ["authority", "additional"])
    if (of[`validate_${name}_rrs`] !== undefined)
      item.note(`its patterns of ${name} records are left out: only answers are judged`, "silent");
  return {
    type: "dns",
    domain: text(of["query_name"]),
    record_type: type === "ANY" ? "A" : type || "A",
    resolver: port === 0 || port === 53 ? host : hostAndPort(host, port),
    ...(code === "NOERROR" ? answersOf(item, row(of["validate_answer_rrs"])) : { expected_rcode: code }),
    timeout,
  };
}

/** The return code that is up; null where the item is refused, because the check would turn the verdict round. */
function codeOf(item: Item, valid: readonly string[]): string | null {
  const unknown = valid.find((code) => !codes.has(code));
  if (unknown !== undefined) return item.refuse(`${unknown.slice(0, 40)} is no return code of DNS`);
  const [code = "NOERROR"] = valid;
  if (valid.includes("NOERROR")) {
    if (valid.length > 1) item.note("only NOERROR is up: its other return codes are left out");
    return "NOERROR";
  }
  if (valid.length > 1) return item.refuse("several return codes are up: make a check with expected_rcode for each");
  return code === "NOERROR" || expectable.has(code)
    ? code
    : item.refuse(`the return code ${code} is up, which no check can expect`);
}

/** `validate_answer_rrs`: patterns of whole records, of which those that only look for a text are expectations. */
function answersOf(item: Item, rules: Row): Json {
  const left = (name: string): void =>
    item.note(`its ${name} is left out: write the records as expected_contains or expected_exactly`, "silent");
  const literals = (name: string): string[] => {
    const patterns = texts(rules[name]);
    const found = patterns.map(literalOf);
    if (found.includes(null)) left(name);
    return found.filter((one): one is string => one !== null);
  };
  const absent = literals("fail_if_matches_regexp");
  const all = literals("fail_if_not_matches_regexp");
  const some = literals("fail_if_none_matches_regexp");
  if (rules["fail_if_all_match_regexp"] !== undefined) left("fail_if_all_match_regexp");
  if (all.length > 1) left("fail_if_not_matches_regexp");
  // Each pattern alone is enough, so one of several is no expectation.
  if (some.length > 1) left("fail_if_none_matches_regexp");
  if (all.length === 1) item.note("one record with its text is enough, where the exporter wants it in each");
  const part = all.length === 1 ? all[0] : some.length === 1 ? some[0] : undefined;
  return {
    expected_contains: part,
    expected_absent: absent.length === 0 ? undefined : absent.slice(0, 50),
  };
}

/** The text of a pattern like `.*192\\.0\\.2\\.1.*`: the data of a record; null for any other pattern. */
function literalOf(pattern: string): string | null {
  const [, bare = ""] = /^\^?(?:\.\*)?(.*?)(?:\.\*)?\$?$/s.exec(pattern) ?? [];
  // In addresses people leave the dots as they are.
  const isAddress = /^\d{1,3}(?:\.\d{1,3}){3}$/.test(bare);
  const plain = bare.replaceAll(/\\([.\-/"])/g, "$1");
  const isPlain = isAddress || !/[\\^$.*+?()[\]{}|]/.test(bare.replaceAll(/\\[.\-/"]/g, ""));
  // A number of up to five digits may be the time to live, which checks do not compare.
  return isPlain && plain.length >= 2 && !/^\d{1,9}$/.test(plain) ? plain : null;
}
