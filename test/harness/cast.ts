import type { Sql } from "postgres";
import { type Scope, scopes } from "@statusmesh/control-plane/platform/context";
import { hashToken, newToken } from "@statusmesh/control-plane/platform/crypto/token";
import { newId } from "@statusmesh/shared/ids";

export interface Person {
  readonly userId: string;
  readonly orgId: string;
  readonly orgSlug: string;
  readonly email: string;
  /** A token of theirs with every scope, bound to their organisation. */
  readonly token: string;
}

/**
 * The users of every test: Olga owns an organisation, Milan is a member of it, Xenia owns another one.
 */
export interface Cast {
  readonly olga: Person;
  readonly milan: Person;
  readonly xenia: Person;
}

export interface TokenOptions {
  scopes?: readonly Scope[];
  /** False: not bound to an organisation. */
  bound?: boolean;
  expiresAt?: Date;
  revokedAt?: Date;
}

/** Puts the cast into a migrated database, beside existing users. */
export async function castIn(sql: Sql, { plan = "selfhost" }: { plan?: string } = {}): Promise<Cast> {
  const salt = newId().slice(-6);
  const acme = await org(sql, `acme-${salt}`, "Acme", plan);
  const other = await org(sql, `other-${salt}`, "Other", plan);
  return {
    olga: await person(sql, `olga.${salt}@example.org`, "Olga", acme, "owner"),
    milan: await person(sql, `milan.${salt}@example.org`, "Milan", acme, "member"),
    xenia: await person(sql, `xenia.${salt}@example.org`, "Xenia", other, "owner"),
  };
}

/** Another member of the organisation of `who`. */
export async function colleagueOf(sql: Sql, { orgId, orgSlug }: Pick<Person, "orgId" | "orgSlug">): Promise<Person> {
  return await person(sql, `${newId()}@example.org`, "Otto", { id: orgId, slug: orgSlug }, "member");
}

async function org(sql: Sql, slug: string, name: string, plan: string): Promise<{ id: string; slug: string }> {
  const id = newId();
  await sql`
    insert into orgs (id, slug, name, plan_id, created_at, updated_at)
    values (${id}, ${slug}, ${name}, ${plan}, now(), now())`;
  return { id, slug };
}

async function person(
  sql: Sql,
  email: string,
  name: string,
  { id: orgId, slug: orgSlug }: { id: string; slug: string },
  role: "owner" | "member",
): Promise<Person> {
  const userId = newId();
  await sql`
    insert into users (id, email, name, email_verified_at, created_at)
    values (${userId}, ${email}, ${name}, now(), now())`;
  await sql`insert into memberships (org_id, user_id, role, created_at) values (${orgId}, ${userId}, ${role}, now())`;
  return { userId, orgId, orgSlug, email, token: await tokenOf(sql, { userId, orgId }) };
}

/** Another API token of a user. */
export async function tokenOf(
  sql: Sql,
  who: Pick<Person, "userId" | "orgId">,
  options: TokenOptions = {},
): Promise<string> {
  const token = newToken("sm_live_");
  await sql`
    insert into api_tokens (id, user_id, org_id, name, token_hash, scopes, created_at, expires_at, revoked_at)
    values
      (${newId()}, ${who.userId}, ${options.bound === false ? null : who.orgId}, 'Test', ${hashToken(token)},
        ${[...(options.scopes ?? scopes)]}, now(),
      ${options.expiresAt ?? null}, ${options.revokedAt ?? null})`;
  return token;
}

/** Signs a user in; returns the value of the session cookie. */
export async function sessionOf(sql: Sql, who: Pick<Person, "userId" | "orgId">): Promise<string> {
  const secret = newToken("");
  await sql`
    insert into sessions (id, user_id, org_id, secret_hash, created_at, last_used_at, expires_at, verified_at)
    values
      (${newId()}, ${who.userId}, ${who.orgId}, ${hashToken(secret)}, now(), now(), now() + interval '1 hour', now())`;
  return secret;
}

/** Adds an agent to a region, which is made if need be; returns its token. */
export async function agentIn(sql: Sql, region: string): Promise<{ id: string; token: string }> {
  const token = newToken("sm_agent_");
  const id = newId();
  await sql`
    insert into regions (id, name, created_at, updated_at) values (${region}, ${region}, now(), now())
    on conflict do nothing`;
  await sql`
    insert into agents (id, region_id, name, token_hash, created_at)
    values (${id}, ${region}, ${`agent ${id}`}, ${hashToken(token)}, now())`;
  return { id, token };
}
