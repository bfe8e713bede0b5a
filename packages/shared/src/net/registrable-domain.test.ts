import t from "tap";
import { lookedUpDomain } from "../checks/domain-expiry.ts";
import { registrableDomain } from "./registrable-domain.ts";

t.test("what is registered", (t) => {
  for (const [name, domain, suffix] of [
    ["example.org", "example.org", "org"],
    ["a.b.example.org", "example.org", "org"],
    ["WWW.Example.CO.UK", "example.co.uk", "co.uk"],
    ["example.uk", "example.uk", "uk"],
    ["xn--bcher-kva.org", "xn--bcher-kva.org", "org"],
    ["pages.github.io", "github.io", "io"],
    ["www.ck", "www.ck", "ck"],
    ["a.city.kobe.jp", "city.kobe.jp", "kobe.jp"],
    ["www.example.brandnewtld", "example.brandnewtld", "brandnewtld"],
  ] as const)
    t.strictSame(registrableDomain(name), { domain, suffix }, name);
  for (const [name, message] of [
    ["org", '"org" has no dot'],
    ["", '"" has no dot'],
    ["192.0.2.1", "192.0.2.1 is an IP address, which nobody registers as a domain"],
    ["2001:db8::1", "2001:db8::1 is an IP address, which nobody registers as a domain"],
    ["co.uk", "co.uk is a public suffix, under which domains are registered, and not itself a domain that expires"],
    ["shop.ck", "shop.ck is a public suffix, under which domains are registered, and not itself a domain that expires"],
    ["a..org", '"a..org" is not a domain name'],
    [".org", '".org" is not a domain name'],
    ["-a.org", '"-a.org" is not a domain name'],
    ["a-.org", '"a-.org" is not a domain name'],
    [`${"a".repeat(64)}.org`, `"${"a".repeat(64)}.org" is not a domain name`],
    [`${"a.".repeat(126)}org`, `"${"a.".repeat(126)}org" is not a domain name`],
    ["_dmarc.example.org", '"_dmarc.example.org" is not a domain name'],
    ["exa mple.org", '"exa mple.org" is not a domain name'],
  ] as const)
    t.throws(() => registrableDomain(name), { message }, name);
  t.end();
});

t.test("what a check asks about, as people write it", (t) => {
  for (const [domain, asked] of [
    ["Example.org.", "example.org"],
    ["www.bücher.org", "xn--bcher-kva.org"],
    ["shop。example。org", "example.org"],
  ] as const)
    t.equal(lookedUpDomain({ domain }).domain, asked, domain);
  t.throws(() => lookedUpDomain({ domain: "co.uk" }), {
    code: "INVALID_DOMAIN_PARAMS",
    field: "/domain",
    message:
      "co.uk is a public suffix, under which domains are registered, and not itself a domain that expires. " +
      "Write a registered domain with its dot, for example example.org.",
  });
  t.end();
});
