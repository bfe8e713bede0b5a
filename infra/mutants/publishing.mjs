// Defects of the gate in front of private status pages.
const publishing = "control-plane/src/publishing";
const test = "../test/conformance/private-pages.test.ts";

export default [
  {
    name: "a cached copy of a private page is served without the gate",
    file: `${publishing}/public/cached-replies.ts`,
    search: "if (isPrivate(fresh.page))",
    replace: "if (isPrivate(fresh.page) && fresh === null)",
    test,
  },
  {
    name: "a cookie outlives a change of the password",
    file: `${publishing}/page-access/cookie.ts`,
    search: "`${id}.${access_revision}.${expires}`",
    replace: "`${id}.${expires}`",
    test,
  },
  {
    name: "a cookie of one page opens another one",
    file: `${publishing}/page-access/cookie.ts`,
    search: "`${id}.${access_revision}.${expires}`",
    replace: "`${access_revision}.${expires}`",
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
];
