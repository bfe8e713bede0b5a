import type { Sql } from "postgres";
import { grantedBy, type Scope, scopes, scopesOf } from "@statusmesh/control-plane/platform/context";
import { type Client, connect } from "../../harness/api.ts";
import { type Cast, sessionOf, tokenOf } from "../../harness/cast.ts";
import type { Teardown } from "../../harness/folder.ts";
import type { Standing } from "./rules.ts";
import { type Home, make } from "./things.ts";

/** A caller: its client, its organisation and the properties that the rules use. */
export interface Caller extends Standing {
  readonly title: string;
  readonly client: Client;
  readonly home: Home;
}

/**
 * The organisations of the matrix: Olga's, Xenia's, another one of Olga's, and a deleted one of two people who have no
 * other. Milan is a member of both of Olga's.
 */
export interface Homes {
  readonly acme: Home;
  readonly other: Home;
  readonly second: Home;
  readonly gone: Home;
}

export async function homesOf(sql: Sql, { olga, milan, xenia }: Cast): Promise<Homes> {
  const acme = { orgId: olga.orgId, userId: olga.userId, ownerId: olga.userId, memberId: milan.userId };
  const second = { ...acme, orgId: await make.org(sql, acme, "") };
  const [ownerId, memberId] = [await make.member(sql, acme, acme.orgId), await make.member(sql, acme, acme.orgId)];
  await sql`delete from memberships where user_id in (${ownerId}, ${memberId})`;
  const formerly = { ...acme, userId: ownerId, ownerId, memberId };
  const gone = { ...formerly, orgId: await make.org(sql, formerly, "") };
  await sql`update orgs set deleted_at = now() where id = ${gone.orgId}`;
  const colleague = await make.member(sql, acme, xenia.orgId);
  return {
    acme,
    second,
    gone,
    other: { orgId: xenia.orgId, userId: xenia.userId, ownerId: xenia.userId, memberId: colleague },
  };
}

export interface Callers {
  readonly owner: Caller;
  readonly member: Caller;
  readonly viewer: Caller;
  /** With a token that reaches one organisation. */
  readonly bound: Caller;
  /** Owner of another organisation. */
  readonly outsider: Caller;
  /** The owner, with a token bound to another organisation of hers. */
  readonly elsewhere: Caller;
  /** Callers whose credential has no access to the organisation that they name. */
  readonly intruders: readonly Caller[];
  /** Callers in the deleted organisation. */
  readonly ofGone: readonly Caller[];
  /** A token for each scope, with all but that one and those that imply it. */
  readonly without: readonly Caller[];
  /** A token for each scope, with that one alone. */
  readonly only: Readonly<Record<Scope, Caller>>;
}

export async function callersOf(t: Teardown, url: string, sql: Sql, cast: Cast, homes: Homes): Promise<Callers> {
  const { olga, milan, xenia } = cast;
  const { acme, other, second, gone } = homes;
  // The trace is the caller's, so that two answers may be compared to the byte.
  const anonymous = connect(t, url, null).with({ traceparent: `00-${"12".repeat(16)}-${"34".repeat(8)}-01` });
  const signedIn = async (userId: string, orgId: string) =>
    anonymous.with({
      cookie: `_sm_session=${await sessionOf(sql, { userId, orgId })}`,
      "sec-fetch-site": "same-origin",
    });
  const bearing = (token: string) => anonymous.with({ authorization: `Bearer ${token}` });
  const boundTo = async (orgId: string, userId = olga.userId) => bearing(await tokenOf(sql, { userId, orgId }));
  const unbound = async (allowed: readonly Scope[]) =>
    bearing(await tokenOf(sql, olga, { scopes: allowed, bound: false })).with({ "x-sm-org": olga.orgSlug });
  const full = {
    admitted: true,
    deleted: false,
    role: "owner",
    scopes: new Set<string>(scopes),
    by: "session",
    home: acme,
  } as const;

  const outsider = await signedIn(xenia.userId, other.orgId);
  const elsewhere = await boundTo(second.orgId);
  const only = new Map<Scope, Caller>();
  for (const scope of scopes)
    only.set(scope, {
      ...full,
      title: `a token with ${scope} alone`,
      client: await unbound([scope]),
      scopes: grantedBy([scope]),
      by: "token",
    });
  const without: Caller[] = [];
  for (const scope of scopes) {
    const rest = scopes.filter((it) => it !== scope && !grantedBy([it]).has(scope));
    without.push({
      ...full,
      title: `a token without ${scope}`,
      client: await unbound(rest),
      scopes: grantedBy(rest),
      by: "token",
    });
  }
  const viewerId = await make.member(sql, acme, acme.orgId);
  await sql`update memberships set role = 'viewer' where user_id = ${viewerId}`;
  const inGone = { ...full, deleted: true, home: gone };
  return {
    owner: { ...full, title: "the owner", client: await signedIn(olga.userId, acme.orgId) },
    member: {
      ...full,
      title: "a member",
      client: await signedIn(milan.userId, acme.orgId),
      role: "member",
      home: { ...acme, userId: milan.userId },
    },
    viewer: {
      ...full,
      title: "a viewer",
      client: await signedIn(viewerId, acme.orgId),
      role: "viewer",
      scopes: scopesOf("viewer", full.scopes),
      home: { ...acme, userId: viewerId },
    },
    bound: { ...full, title: "a token of the organisation", client: await boundTo(acme.orgId), by: "bound token" },
    outsider: { ...full, title: "an outsider", client: outsider, home: other },
    elsewhere: {
      ...full,
      title: "a token of another organisation of the owner",
      client: elsewhere,
      home: second,
      by: "bound token",
    },
    intruders: [
      {
        ...full,
        title: "an outsider's session that names the organisation",
        client: outsider.with({ "x-sm-org": olga.orgSlug }),
        admitted: false,
      },
      {
        ...full,
        title: "a token of another organisation that names this one",
        client: elsewhere.with({ "x-sm-org": olga.orgSlug }),
        admitted: false,
      },
      {
        ...full,
        title: "an outsider's token that names the organisation",
        client: bearing(xenia.token).with({ "x-sm-org": olga.orgSlug }),
        admitted: false,
      },
    ],
    ofGone: [
      { ...inGone, title: "the owner of a deleted organisation", client: await signedIn(gone.ownerId, gone.orgId) },
      {
        ...inGone,
        title: "a member of a deleted organisation",
        client: await signedIn(gone.memberId, gone.orgId),
        role: "member",
      },
      {
        ...inGone,
        title: "a token of a deleted organisation",
        client: await boundTo(gone.orgId, gone.ownerId),
        by: "bound token",
      },
    ],
    without,
    only: Object.fromEntries(only) as Record<Scope, Caller>,
  };
}
