import { isIP } from "node:net";

/** IPv4 addresses within IPv6: mapped (RFC 4291, section 2.5.5.2) and translated (RFC 6052, section 2.1). */
const embedded = /^(?:::ffff|64:ff9b:):([0-9a-f]{1,4}):([0-9a-f]{1,4})$/;

/**
 * The canonical spelling of an address: RFC 5952, without brackets, port or zone; IPv4 within IPv6 as IPv4. Returns any
 * other text unchanged.
 */
export function canonicalAddress(text: string): string {
  const bare = /^\[(.*)\](?::\d+)?$/.exec(text)?.[1] ?? /^([\d.]+):\d+$/.exec(text)?.[1] ?? text;
  const address = bare.replace(/%.*$/, "");
  const family = isIP(address);
  if (family === 0) return text;
  if (family === 4) return address;
  const spelt = new URL(`http://[${address}]/`).hostname.slice(1, -1);
  const [, high, low] = embedded.exec(spelt) ?? [];
  if (high === undefined || low === undefined) return spelt;
  const bits = [Number.parseInt(high, 16), Number.parseInt(low, 16)];
  return bits.flatMap((group) => [group >> 8, group & 0xff]).join(".");
}

/** Key under which limits count a canonical address: IPv4 itself, the /64 of IPv6, because one host has a whole /64. */
export function addressKey(address: string): string {
  if (isIP(address) !== 6) return address;
  const [head = "", tail] = address.split("::");
  const left = head === "" ? [] : head.split(":");
  const right = tail === undefined || tail === "" ? [] : tail.split(":");
  const groups = [...left, ...Array<string>(8 - left.length - right.length).fill("0"), ...right];
  return `${groups.slice(0, 4).join(":")}::/64`;
}
