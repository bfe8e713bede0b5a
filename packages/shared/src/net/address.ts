import { BlockList, isIP } from "node:net";

/**
 * Which addresses a check may not reach: the guard against requests forged through a monitor (SSRF). Sources: the IANA
 * special-purpose registries (RFC 6890 and its updates) and the addresses that clouds reserve on every host.
 *
 * IPv4 is allowed except for the ranges below. IPv6 is the other way round: only global unicast is allowed, because
 * whatever else exists there maps, tunnels or translates to an address that this list would have to see through.
 */
const blockedV4 = [
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "168.63.129.16/32",
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.0.2.0/24",
  "192.31.196.0/24",
  "192.52.193.0/24",
  "192.88.99.0/24",
  "192.168.0.0/16",
  "192.175.48.0/24",
  "198.18.0.0/15",
  "198.51.100.0/24",
  "203.0.113.0/24",
  "224.0.0.0/4",
  "240.0.0.0/4",
] as const;

const globalUnicastV6 = "2000::/3";
const blockedInsideV6 = [
  "2001::/23",
  "2001:db8::/32",
  "2002::/16",
  "2620:4f:8000::/48",
  "3ffe::/16",
  "3fff::/20",
] as const;
/** Outside of {@link globalUnicastV6} everything is blocked; these are the ranges that have a name worth telling. */
const namedOutsideV6 = [
  "::1/128",
  "::/128",
  "::ffff:0:0/96",
  "64:ff9b::/96",
  "64:ff9b:1::/48",
  "100::/64",
  "fc00::/7",
  "fe80::/10",
  "fec0::/10",
  "ff00::/8",
] as const;

/** Separate lists for each family: one list for both lets a v4-mapped loopback address through. */
function listOf(family: "ipv4" | "ipv6", ranges: readonly string[]): BlockList {
  const list = new BlockList();
  for (const range of ranges) {
    const [net, bits] = range.split("/") as [string, string];
    list.addSubnet(net, Number(bits), family);
  }
  return list;
}

const denyV4 = listOf("ipv4", blockedV4);
const allowV6 = listOf("ipv6", [globalUnicastV6]);
const denyV6 = listOf("ipv6", blockedInsideV6);

function rangeOf(ip: string, family: "ipv4" | "ipv6", ranges: readonly string[]): string | null {
  return ranges.find((range) => listOf(family, [range]).check(ip, family)) ?? null;
}

/** The eight groups of an IPv6 address, without leading zeros. */
export function groupsOfV6(ip: string): string[] {
  const [head = "", tail] = new URL(`http://[${ip}]/`).hostname.slice(1, -1).split("::");
  const left = head === "" ? [] : head.split(":");
  const right = tail === undefined || tail === "" ? [] : tail.split(":");
  return [...left, ...Array<string>(8 - left.length - right.length).fill("0"), ...right];
}

/** ISATAP hides an IPv4 address behind the interface identifier 0000:5efe or 0200:5efe (RFC 5214 section 6.1). */
function isIsatap(ip: string): boolean {
  const groups = groupsOfV6(ip);
  return groups[5] === "5efe" && (groups[4] === "0" || groups[4] === "200");
}

/**
 * The range that blocks an address, for a person to read: a CIDR, or the name of what is wrong with it. Null means that
 * the address is public. Whatever is not a plain IP address is blocked.
 */
export function blockedRange(ip: string): string | null {
  const family = isIP(ip);
  if (family === 4) return denyV4.check(ip, "ipv4") ? rangeOf(ip, "ipv4", blockedV4) : null;
  if (family === 0) return "not an IP address";
  if (ip.includes("%")) return "zone id";
  if (!allowV6.check(ip, "ipv6")) return rangeOf(ip, "ipv6", namedOutsideV6) ?? `outside ${globalUnicastV6}`;
  if (denyV6.check(ip, "ipv6")) return rangeOf(ip, "ipv6", blockedInsideV6);
  return isIsatap(ip) ? "ISATAP" : null;
}

/**
 * {@link blockedRange} for the host of a check, before any name is resolved. The host is in canonical form, as
 * `canonicalHost` and `URL.hostname` give it, without brackets. Names pass, except those that are this machine by
 * definition (RFC 6761 section 6.3).
 */
export function blockedHost(host: string): string | null {
  if (isIP(host) !== 0 || host.includes(":")) return blockedRange(host);
  const name = host.toLowerCase().replace(/\.$/, "");
  return name === "localhost" || name.endsWith(".localhost") ? "localhost" : null;
}

/** What an address to listen on looks like: `127.0.0.1:8080`, `[::1]:8080`, `localhost:0`. */
export const bindPattern = "(?:\\[[0-9A-Fa-f:.]+\\]|[^\\s:\\[\\]/]+):[0-9]{1,5}";

/** `host:port` in its parts; an IPv6 address loses its brackets. Port 0 asks the system for a free one. */
export function parseBind(bind: string): { host: string; port: number } {
  const colon = bind.lastIndexOf(":");
  return { host: bind.slice(0, colon).replace(/^\[|\]$/g, ""), port: Number(bind.slice(colon + 1)) };
}

/** True for the names and addresses of this machine that no other machine can reach; `[::1]` is the host of a URL. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || /^(?:::1|\[::1\])$/.test(host) || /^127(?:\.\d{1,3}){3}$/.test(host);
}

/** The list of addresses and ranges: `192.0.2.1`, `10.0.0.0/8`, `2001:db8::/32`. Throws TypeError for anything else. */
export function addressList(entries: readonly string[]): BlockList {
  const list = new BlockList();
  for (const entry of entries) {
    const [address = "", bits, ...more] = entry.split("/");
    const family = isIP(address) === 6 ? "ipv6" : "ipv4";
    const most = family === "ipv6" ? 128 : 32;
    if (
      isIP(address) === 0 ||
      more.length > 0 ||
      (bits !== undefined && (!/^\d{1,3}$/.test(bits) || Number(bits) > most))
    )
      throw new TypeError(`${entry} is not an address or a range of addresses`);
    if (bits === undefined) list.addAddress(address, family);
    else list.addSubnet(address, Number(bits), family);
  }
  return list;
}

/** True for an address in the list; false for a text that is no address. */
export function isListed(list: BlockList, address: string): boolean {
  const family = isIP(address);
  return family !== 0 && list.check(address, family === 6 ? "ipv6" : "ipv4");
}
