import { domainToASCII } from "node:url";

const label = /^(?!-)[a-z0-9-]{1,63}(?<!-)$/;

/**
 * The domain of mail addresses in its one spelling: lower case, internationalised labels in Punycode (RFC 5890). Null
 * for a text that is none, such as an address, a single label or an IP address.
 */
export function mailDomain(text: string): string | null {
  if (text.length > 253 || /[\s@/:?#%\\[\]]/.test(text)) return null;
  const ascii = domainToASCII(text);
  const labels = ascii.split(".");
  if (ascii.length > 253 || labels.length < 2 || !labels.every((one) => label.test(one))) return null;
  return /^\d+$/.test(labels.at(-1)!) ? null : ascii;
}

/** The domain of an address, as {@link mailDomain} spells it; null for a text that is no address. */
export function domainOfAddress(address: string): string | null {
  const at = address.lastIndexOf("@");
  return at < 1 ? null : mailDomain(address.slice(at + 1));
}

/** One mailbox has one key: in lower case, without a tag behind a plus sign (RFC 5233). */
export function mailboxKey(address: string): string {
  const at = address.lastIndexOf("@");
  return `${address.slice(0, at).split("+", 1)[0]!.toLowerCase()}@${domainOfAddress(address) ?? ""}`;
}
