// Defects of the gate in front of private status pages.
const publishing = "control-plane/src/publishing";
const test = "../test/conformance/private-pages.test.ts";

export default [
  {
    name: "a cached copy of a private page is served without the gate",
    file: `${publishing}/public/page/cached-replies.ts`,
    search: "if (isPrivate(fresh.page))",
    replace: "if (isPrivate(fresh.page) && fresh === null)",
    test,
  },
  {
    name: "a cookie outlives a change of the password",
    file: `${publishing}/page-access/cookie.ts`,
    search: "`${id}.${access_revision}.${claim}`",
    replace: "`${id}.${claim}`",
    test,
  },
  {
    name: "a cookie of one page opens another one",
    file: `${publishing}/page-access/cookie.ts`,
    search: "`${id}.${access_revision}.${claim}`",
    replace: "`${access_revision}.${claim}`",
    test,
  },
  {
    name: "a subscription is managed at the address of another page",
    file: `${publishing}/subscribers/service.ts`,
    search: "row === null || row.page_id !== visit.page.id",
    replace: "row === null",
    test,
  },
  {
    name: "a logo is served without the gate",
    file: `${publishing}/public/logo-files.ts`,
    search: "await requireAccess(system, http, page);",
    replace: "",
    test,
  },
  {
    name: "the domain of a reader is not compared with the list",
    file: `${publishing}/page-access/service.ts`,
    search: "&& domains.includes(proven.mailDomain)",
    replace: "",
    test,
  },
  {
    name: "another browser redeems the code of a member",
    file: `${publishing}/page-access/queries.ts`,
    search: "and r.browser_hash = ${browser} and",
    replace: "and r.browser_hash is distinct from ${browser} and",
    test,
  },
  {
    name: "a code of one host of a page works at another one",
    file: `${publishing}/page-access/queries.ts`,
    search: " and r.host = ${host}`",
    replace: " and r.host is distinct from ${host}`",
    test,
  },
  {
    name: "a former member reads on",
    file: `${publishing}/page-access/queries.ts`,
    search: "join memberships m on",
    replace: "left join memberships m on",
    test,
  },
  {
    name: "a group that is off the list reads on",
    file: `${publishing}/page-access/queries.ts`,
    search: "and g.groups && ${[...groups]}::text[]`",
    replace: "and g.groups is distinct from ${[...groups]}::text[]`",
    test,
  },
  {
    name: "a link to a page counts more than once",
    file: `${publishing}/page-access/queries.ts`,
    search: "delete from page_links where ${isLink(sql, page, token, now)} returning mail_domain",
    replace: "select mail_domain from page_links where ${isLink(sql, page, token, now)}",
    test,
  },
];
