import { BlockList, isIP } from "node:net";

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
