/**
 * Who registers domains below suffixes of the private section of the public suffix list that are sold as a top-level
 * domain is. None of these registries is in IANA's list of RDAP servers. From the comments of the list, 2026-08-19.
 */
const suffixesBySeller: Readonly<Record<string, string>> = {
  "1GB": "ltd.ua",
  "Africa.com Web Solutions": "africa.com",
  "BRS Media": "radio.am radio.fm",
  CentralNic:
    "za.bz br.com cn.com de.com eu.com jpn.com mex.com ru.com sa.com uk.com us.com za.com com.de gb.net hu.net " +
    "jp.net se.net uk.net ae.org com.se",
  Cityhost: "cx.ua",
  "co.com Registry": "co.com",
  CoDNS: "co.nl co.no",
  "Dansk.net": "biz.dk co.dk firm.dk reg.dk store.dk",
  DigitalPlat: "qzz.io us.kg xx.kg dpdns.org",
  DNSHE: "ccwu.cc cc.cd us.ci de5.net",
  "dotScot Domains": "co.scot me.scot org.scot",
  "EU.org": "eu.org",
  FAITID:
    "ru.net adygeya.ru bashkiria.ru bir.ru cbg.ru com.ru dagestan.ru grozny.ru kalmykia.ru kustanai.ru marine.ru " +
    "mordovia.ru msk.ru mytis.ru nalchik.ru nov.ru pyatigorsk.ru spb.ru vladikavkaz.ru vladimir.ru abkhazia.su " +
    "adygeya.su aktyubinsk.su arkhangelsk.su armenia.su ashgabad.su azerbaijan.su balashov.su bashkiria.su " +
    "bryansk.su bukhara.su chimkent.su dagestan.su east-kazakhstan.su exnet.su georgia.su grozny.su ivanovo.su " +
    "jambyl.su kalmykia.su kaluga.su karacol.su karaganda.su karelia.su khakassia.su krasnodar.su kurgan.su " +
    "kustanai.su lenug.su mangyshlak.su mordovia.su msk.su murmansk.su nalchik.su navoi.su north-kazakhstan.su " +
    "nov.su obninsk.su penza.su pokrovsk.su sochi.su spb.su tashkent.su termez.su togliatti.su troitsk.su " +
    "tselinograd.su tula.su tuva.su vladikavkaz.su vladimir.su vologda.su",
  "Globe Hosting": "co.ro shop.ro",
  "GoDaddy Registry": "graphic.design",
  "HOSTBIP Registry":
    "orx.biz biz.ng co.biz.ng dl.biz.ng go.biz.ng lg.biz.ng on.biz.ng col.ng firm.ng gen.ng ltd.ng ngo.ng plc.ng",
  "i-registry": "co.cz",
  "iDOT Services": "gr.com",
  "info.cx": "info.cx",
  "KV GmbH": "co.de",
  "Lifetime Hosting": "co.business co.education co.events co.financial co.network co.place co.technology",
  "Michau Enterprises": "co.pl",
  "MSK-IX": "net.ru org.ru pp.ru",
  "NGO.US Registry": "ngo.us",
  "nic.at": "priv.at",
  "OpenHost Registry": "16-b.it 32-b.it 64-b.it",
  "Positive Codes Technology": "co.bn",
  Radix: "web.in in.net",
  "Service Online": "biz.ua co.ua pp.ua",
  Smallregistry:
    "aeroport.fr avocat.fr chambagri.fr chirurgiens-dentistes.fr experts-comptables.fr medecin.fr notaires.fr " +
    "pharmacien.fr port.fr veterinaire.fr",
  TechEdge: "ec.cc eu.cc gu.cc uk.cc us.cc",
  "the .krd registry": "co.krd edu.krd",
  "the co.ca registry": "co.ca",
  "the Coordination Center for TLD RU": "ac.ru edu.ru gov.ru int.ru mil.ru",
  UDR: "hk.com inc.hk ltd.hk hk.org",
  "Universal Domain Registry": "name.pm sch.tf biz.wf sch.wf org.yt",
  "US Registry": "us.org",
  "V.UA Domain Registry": "v.ua",
  ZaNiC: "za.net za.org",
};

const sellers: ReadonlyMap<string, string> = new Map(
  Object.entries(suffixesBySeller).flatMap(([seller, suffixes]) =>
    suffixes.split(" ").map((suffix) => [suffix, seller] as const),
  ),
);

/** Who registers domains below a suffix of the private section, and below which one; null for a hosting service. */
export function sellerOf(suffix: string): { seller: string; below: string } | null {
  for (let below = suffix; below.includes("."); below = below.slice(below.indexOf(".") + 1)) {
    const seller = sellers.get(below);
    if (seller !== undefined) return { seller, below };
  }
  return null;
}
