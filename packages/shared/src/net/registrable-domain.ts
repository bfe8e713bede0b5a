import { isIP } from "node:net";
import { parse } from "tldts";

/** What a registry registers for a name: the public suffix and one label. */
export interface RegistrableDomain {
  /** In lower-case ASCII, without a dot at its end: `xn--bcher-kva.co.uk`. */
  domain: string;
  /** What it is registered under, one label or more: `co.uk`. */
  suffix: string;
}

/** Host names as they may be registered (RFC 1123 section 2.1): letters, digits and inner hyphens, 63 to a label. */
const hostName = /^(?=.{1,253}$)(?!-)[a-z0-9-]{1,63}(?<!-)(?:\.(?!-)[a-z0-9-]{1,63}(?<!-))*$/;

/**
 * The registrable domain of a name in ASCII, by the ICANN part of the public suffix list: `www.example.co.uk` is part
 * of `example.co.uk`. A top-level domain that the list does not know yet is a suffix of its own. Throws an Error that
 * says what the name is instead: an address, a single label, a public suffix, no host name at all.
 */
export function registrableDomain(name: string): RegistrableDomain {
  const host = name.toLowerCase();
  if (isIP(host) !== 0) throw new Error(`${host} is an IP address, which nobody registers as a domain`);
  if (!host.includes(".")) throw new Error(`"${host}" has no dot`);
  const { domain, publicSuffix } = parse(host, { allowPrivateDomains: false });
  if (!hostName.test(host) || publicSuffix === null) throw new Error(`"${host}" is not a domain name`);
  if (domain === null)
    throw new Error(
      `${host} is a public suffix, under which domains are registered, and not itself a domain that expires`,
    );
  return { domain, suffix: publicSuffix };
}

/**
 * The suffix of the private section of the list under which a name is sold or hosted: `uk.com` for `shop.uk.com`. Null
 * where the registrable domain of {@link registrableDomain} is what was meant.
 */
export function privateSuffix(name: string, { domain }: RegistrableDomain): string | null {
  const host = name.toLowerCase();
  const { isPrivate, publicSuffix } = parse(host, { allowPrivateDomains: true });
  return isPrivate === true && host !== domain ? publicSuffix : null;
}
