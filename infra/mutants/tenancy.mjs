// Queries that have lost the condition of the organisation: one sees or changes what another one has.
const source = "control-plane/src";

/** The condition `search` of a query is gone. */
const without = (name, file, search, test) => ({
  name,
  file: `${source}/${file}`,
  search,
  replace: search.replace(/\w*\.?org_id = \$\{orgId\} and /, ""),
  test: `${source}/${test}`,
});

export default [
  without(
    "a monitor of another organisation is read",
    "monitoring/targets/queries.ts",
    "from targets t where t.org_id = ${orgId} and t.id = ${id}`",
    "monitoring/targets/targets.test.ts",
  ),
  without(
    "a channel of another organisation is read",
    "alerting/channels/queries.ts",
    "from channels where org_id = ${orgId} and id = ${id} ${lock",
    "alerting/channels/channels.test.ts",
  ),
  without(
    "a channel of another organisation is bound",
    "alerting/channels/queries.ts",
    "where org_id = ${orgId} and id = any(${[...ids]}::uuid[]) and ${isReachable(sql, reach)}",
    "alerting/channels/channels.test.ts",
  ),
  without(
    "a status page of another organisation is read",
    "publishing/status-pages/queries.ts",
    "from status_pages p where p.org_id = ${orgId} and p.id = ${id}`",
    "publishing/status-pages/status-pages.test.ts",
  ),
  without(
    "a maintenance window of another organisation is read",
    "alerting/maintenance/queries.ts",
    "where w.org_id = ${orgId} and w.id = ${id}`",
    "alerting/maintenance/maintenance.test.ts",
  ),
  {
    name: "a passkey of another person is removed",
    file: `${source}/access/auth/passkeys/queries.ts`,
    search: "where user_id = ${userId} and id = ${id}\n    returning",
    replace: "where id = ${id}\n    returning",
    test: `${source}/access/auth/passkeys/passkeys.test.ts`,
  },
];
