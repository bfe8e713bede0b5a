import { readFileSync } from "node:fs";
import { join } from "node:path";
import { domainToASCII } from "node:url";
import t from "tap";
import { matchObject } from "../testing.ts";
import { domainExpiry, lookedUpDomain } from "../checks/domain-expiry.ts";
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

t.test("what was typed is judged, or refused: the tests of the public suffix list", (t) => {
  const file = join(import.meta.dirname, "../../../../test/fixtures/public-suffix/test_psl.txt");
  const cases = [...readFileSync(file, "utf8").matchAll(/^checkPublicSuffix\('(.*)', (?:'(.*)'|null)\);/gm)];
  t.equal(cases.length, 77);
  for (const [, name = "", registered] of cases) {
    let judged: string | null = null;
    try {
      judged = lookedUpDomain({ domain: name }).domain;
    } catch {
      // Refused.
    }
    const ascii = (text: string | undefined): string | null => (text === undefined ? null : domainToASCII(text));
    const isSold = /(?:^|\.)uk\.com$/.test(name);
    // uk.com itself is registered below com; what is sold below it is refused.
    t.equal(judged, isSold ? (name === "uk.com" ? name : null) : ascii(registered), name);
  }
  t.end();
});

t.test("names below a private suffix: who sells them, or that nobody does", (t) => {
  const refusal = (domain: string): string => {
    try {
      return lookedUpDomain({ domain }).domain;
    } catch (error) {
      matchObject(t, error, { code: "INVALID_DOMAIN_PARAMS", field: "/domain" });
      return (error as Error).message;
    }
  };
  for (const [name, suffix, seller] of [
    ["shop.uk.com", "uk.com", "CentralNic"],
    ["www.Shop.UK.com", "uk.com", "CentralNic"],
    ["xyz.co.ua", "co.ua", "Service Online"],
    ["me.eu.org", "eu.org", "EU.org"],
    ["x.fr.eu.org", "eu.org", "EU.org"],
    ["x.us.com", "us.com", "CentralNic"],
    ["x.com.de", "com.de", "CentralNic"],
    ["x.pp.ua", "pp.ua", "Service Online"],
    ["x.co.com", "co.com", "co.com Registry"],
    ["x.in.net", "in.net", "Radix"],
    ["x.msk.ru", "msk.ru", "FAITID"],
    ["x.pp.ru", "pp.ru", "MSK-IX"],
    ["x.co.de", "co.de", "KV GmbH"],
    ["x.co.nl", "co.nl", "CoDNS"],
    ["x.priv.at", "priv.at", "nic.at"],
    ["x.avocat.fr", "avocat.fr", "Smallregistry"],
    ["x.za.net", "za.net", "ZaNiC"],
    ["x.us.kg", "us.kg", "DigitalPlat"],
  ] as const) {
    const words = refusal(name);
    t.ok(
      words.startsWith(`Names below ${suffix} are registered with ${seller}, whose registry is not in IANA's list`),
      words,
    );
  }
  for (const name of ["x.github.io", "a.b.blogspot.com", "app.herokuapp.com", "x.s3.amazonaws.com", "x.web.app"])
    t.match(refusal(name), / is not registered separately: \S+ belongs to a service/, name);
  for (const name of ["uk.com", "co.ua", "eu.org", "github.io", "example.co.uk", "www.example.org", "city.kobe.jp"])
    t.notMatch(refusal(name), / /, `${name} is judged`);
  t.end();
});

t.test("expires_on is a date, and a save says what a registry will not", (t) => {
  const check = (domain: string, expires_on: string | null = null) => ({
    ...({ type: "domain_expiry", domain, warn_days: 30, critical_days: 7, timeout: 30_000 } as const),
    expires_on,
  });
  for (const day of ["2027-2-4", "2027-02-30", "04.02.2027", "1969-12-31", "2027-02-04T00:00:00Z"])
    t.throws(
      () => domainExpiry.rules(check("example.de", day)),
      { code: "INVALID_DOMAIN_PARAMS", field: "/expires_on" },
      day,
    );
  t.doesNotThrow(() => domainExpiry.rules(check("example.de", "2028-02-29")));
  for (const [spec, said] of [
    [check("example.org"), []],
    [check("www.example.de"), [/^The registry of \.de publishes no expiry date over RDAP: set expires_on/]],
    [check("example.com.au"), [/^The registry of \.com\.au publishes no/]],
    [check("example.fi", "2027-02-04"), [/^The registry of \.fi is asked first/]],
  ] as const)
    matchObject(t, domainExpiry.savedWarnings!(spec, null), said, spec.domain);
  t.end();
});
