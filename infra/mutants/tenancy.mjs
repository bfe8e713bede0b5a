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
];
