// Defects of sessions, tokens and scopes.
const auth = "control-plane/src/access/auth";
const tokens = `${auth}/tokens.test.ts`;
const sessions = `${auth}/auth.test.ts`;

export default [
  {
    name: "an expired token is accepted",
    file: `${auth}/token-queries.ts`,
    search: `t.token_hash = \${hash} and t.audience is null and t.revoked_at is null
      and (t.expires_at is null or t.expires_at > \${now})`,
    replace: "t.token_hash = ${hash} and t.audience is null and t.revoked_at is null",
    test: tokens,
  },
  {
    name: "a revoked token is accepted",
    file: `${auth}/token-queries.ts`,
    search: "t.audience is null and t.revoked_at is null\n      and (t.expires_at",
    replace: "t.audience is null\n      and (t.expires_at",
    test: tokens,
  },
  {
    name: "a token for MCP calls the REST API",
    file: `${auth}/token-queries.ts`,
    search: "t.token_hash = ${hash} and t.audience is null and",
    replace: "t.token_hash = ${hash} and",
    test: tokens,
  },
  {
    name: "an unbound token with two organisations acts in the oldest one",
    file: `${auth}/token-queries.ts`,
    search: "return rows.length === 1 ? rows[0]! : null;",
    replace: "return rows[0] ?? null;",
    test: sessions,
  },
  {
    name: "a revoked token leaves the tokens that it created",
    file: `${auth}/token-queries.ts`,
    search: "union select t.id from api_tokens t join family f on t.made_by = f.id)",
    replace: "union select t.id from api_tokens t join family f on t.id = f.id)",
    test: tokens,
  },
  {
    name: "a user revokes tokens of other users",
    file: `${auth}/token-queries.ts`,
    search: "sql`user_id = ${userId} and connection_id is null and revoked_at is null\n",
    replace: "sql`${userId} = ${userId} and connection_id is null and revoked_at is null\n",
    test: tokens,
  },
  {
    name: "a token creates tokens with scopes that it lacks",
    file: `${auth}/tokens.ts`,
    search: "for (const scope of input.scopes) requireScope(grantable, scope);",
    replace: "",
    test: tokens,
  },
  {
    name: "a token creates one that outlives it",
    file: `${auth}/tokens.ts`,
    search: "(made.expires_at === null || made.expires_at > reach.expires_at)",
    replace: "made.expires_at !== null && made.expires_at > reach.expires_at",
    test: tokens,
  },
  {
    name: "a user has one token more than allowed",
    file: `${auth}/tokens.ts`,
    search: "if (current >= limit)",
    replace: "if (current > limit)",
    test: tokens,
  },
  {
    name: "a write needs no scope",
    file: "control-plane/src/platform/context.ts",
    search: "if (ctx.scopes.has(scope)) return;",
    replace: "if (ctx.scopes.has(scope) || !isReadScope(scope)) return;",
    test: tokens,
  },
  {
    name: "a viewer writes with the scopes of a token",
    file: "control-plane/src/platform/context.ts",
    search: 'if (role !== "viewer") return granted;',
    replace: "return granted;",
    test: "control-plane/src/access/orgs/viewers.test.ts",
  },
  {
    name: "a session without requests never ends",
    file: `${auth}/session-queries.ts`,
    search: "where s.secret_hash = ${hash} and s.expires_at > ${now} and s.last_used_at > ${idleSince}",
    replace: "where s.secret_hash = ${hash} and s.expires_at > ${now} and ${idleSince}::timestamptz is not null",
    test: sessions,
  },
  {
    name: "a session never reaches its absolute expiry",
    file: `${auth}/session-queries.ts`,
    search: "where s.secret_hash = ${hash} and s.expires_at > ${now} and",
    replace: "where s.secret_hash = ${hash} and ${now}::timestamptz is not null and",
    test: sessions,
  },
  {
    name: "a sign-in link works twice",
    file: `${auth}/session-queries.ts`,
    search: "where code_hash = ${hash} and consumed_at is null and expires_at > ${now}",
    replace: "where code_hash = ${hash} and expires_at > ${now}",
    test: sessions,
  },
  {
    name: "an old sign-in link works",
    file: `${auth}/session-queries.ts`,
    search: "where code_hash = ${hash} and consumed_at is null and expires_at > ${now}",
    replace: "where code_hash = ${hash} and consumed_at is null",
    test: sessions,
  },
  {
    name: "a write of another site with the session cookie is accepted",
    file: `${auth}/authenticate.ts`,
    search: "  refuseForeignOrigin(http, system.config);\n  // A page",
    replace: "  // A page",
    test: sessions,
  },
];
