import { isIP } from "node:net";
import { parse } from "tldts";
import { blockedRange } from "./address.ts";

/**
 * Names that a network answers for itself: special use (RFC 6761, 6762, 8375, 9462), the collisions that ICANN keeps
 * out of the root, and what routers hand out. Those of one label are no public top-level domain either; they are here
 * for their words.
 */
const insideSuffixes = [
  "local",
  "localhost",
  "localdomain",
  "internal",
  "intranet",
  "lan",
  "home",
  "corp",
  "private",
  "mail",
  "test",
  "home.arpa",
  "resolver.arpa",
  "service.arpa",
];
/** Reserved for documentation: never delegated, and not internal either (RFC 6761 sections 6.4 and 6.5). */
const nowhere = new Set(["example", "invalid"]);

/**
 * What makes a name one that only the operator's own network may answer, for a person to read: the suffix that says so,
 * the range of addresses whose reverse zone it is, `single label`, or a top-level domain that is not public. Null for a
 * name of the public DNS. The name is in lower-case ASCII, without a final dot.
 */
export function insideName(name: string): string | null {
  const suffix = insideSuffixes.find((inside) => name === inside || name.endsWith(`.${inside}`));
  if (suffix !== undefined) return name.includes(".") ? `.${suffix}` : suffix;
  if (name.endsWith(".in-addr.arpa") || name.endsWith(".ip6.arpa")) return reverseRange(name);
  const top = name.slice(name.lastIndexOf(".") + 1);
  if (parse(`x.${top}`, { allowPrivateDomains: false }).isIcann === true || nowhere.has(top)) return null;
  return name.includes(".") ? `.${top}, which is not a public top-level domain` : "single label";
}

/**
 * The blocked range that the addresses of a reverse zone lie in, from its first to its last; null when one of the two
 * is public.
 */
function reverseRange(name: string): string | null {
  const v4 = name.endsWith(".in-addr.arpa");
  const labels = name.slice(0, v4 ? -".in-addr.arpa".length : -".ip6.arpa".length).split(".");
  const digits = labels.toReversed();
  const end = digits.findIndex((digit) => !(v4 ? /^\d{1,3}$/ : /^[0-9a-f]$/).test(digit));
  const given = digits.slice(0, Math.min(end < 0 ? digits.length : end, v4 ? 4 : 32));
  if (given.length === 0) return null;
  const address = (fill: string): string => {
    const all = [...given, ...Array<string>((v4 ? 4 : 32) - given.length).fill(fill)];
    return v4 ? all.map(Number).join(".") : (all.join("").match(/.{4}/g) ?? []).join(":");
  };
  const first = blockedRange(address("0"));
  return first === null || blockedRange(address(v4 ? "255" : "f")) === null ? null : first;
}

/** Addresses, also after the words of an SPF record (RFC 7208 section 5.6). */
const v4 = String.raw`\d{1,3}(?:\.\d{1,3}){3}`;
const v6 = String.raw`[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7}(?:\d{0,3}(?:\.\d{1,3}){3})?`;
const literal = new RegExp(String.raw`(?:(?<=\bip[46]:)|(?<![\w.:]))(?:${v4}|${v6})(?![\w:]|\.\w)`, "gi");
const word = /(?<![\w.-])[\w-]+(?:\.[\w-]+)*(?![\w-])/g;

/**
 * A text from the operator's own name server with every address and name of the inside replaced by words, as strangers
 * may read it. `names` is true where every word is a name, as in the records that point to one. In free text any two
 * words with a dot between look like a name, so only names that say themselves that they are inside count there.
 */
export function withoutInside(text: string, names: boolean): string {
  return text
    .replaceAll(word, (name) => (isInside(name.toLowerCase(), names) ? "a private name" : name))
    .replaceAll(literal, (address) =>
      isIP(address) !== 0 && blockedRange(address) !== null ? "a private address" : address,
    );
}

function isInside(name: string, names: boolean): boolean {
  if (!/[a-z]/.test(name.slice(name.lastIndexOf(".") + 1))) return false;
  if (names || name.endsWith(".arpa")) return insideName(name) !== null;
  return insideSuffixes.some((inside) => name.endsWith(`.${inside}`));
}
