import { tmpdir } from "node:os";
import { type Test } from "tap";
import { AppError } from "@statusmesh/shared/errors";
import { newId } from "@statusmesh/shared/ids";
import { openAbuseLists } from "../access/abuse/service.ts";
import { endpointNames } from "../alerting/channels/kinds/index.ts";
import { loadConfig } from "../config/config.ts";
import { type AgentCtx, type Ctx, type HashCost, scopes, type System } from "../platform/context.ts";
import { makeSealer } from "../platform/crypto/seal.ts";
import { hashToken, newToken } from "../platform/crypto/token.ts";
import type { Log } from "../platform/process/log.ts";
import { trustedAuthorities } from "../platform/outbound/authorities.ts";
import { type FakeClock, fakeClock } from "./clock.ts";
import { openTestDatabase, type Teardown, type TestDatabase } from "./database.ts";

/** A log that records its lines. */
export interface KeptLog extends Log {
  readonly lines: { level: string; message: string; fields: object }[];
}

export function keptLog(): KeptLog {
  const lines: KeptLog["lines"] = [];
  const at = (level: string) => (fields: object, message: string) => void lines.push({ level, message, fields });
  return { lines, debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}

export interface World extends TestDatabase {
  readonly clock: FakeClock;
  readonly log: KeptLog;
  readonly system: System;
}

/** Tests of what happens around password hashes do not wait for them. */
export const cheapHash: HashCost = { log2N: 10, r: 8, p: 1 };

/** Default key of the sealer in tests. */
const testKey = Buffer.alloc(32, 7);

/**
 * A control plane without HTTP: own database, fake clock, recorded log. `env` has settings as environment variables.
 */
export async function openWorld(t: Teardown, { env = {} }: { env?: Record<string, string> } = {}): Promise<World> {
  const database = await openTestDatabase(t);
  const clock = fakeClock();
  const log = keptLog();
  const config = loadConfig({
    env: { SM_SERVER__PUBLIC_URL: "https://status.example.org", ...env },
    cwd: tmpdir(),
    endpointNames,
  });
  return {
    ...database,
    clock,
    log,
    system: {
      sql: database.sql,
      clock,
      log,
      config,
      sealer: makeSealer(testKey),
      abuse: openAbuseLists(config.abuse, log),
      hashCost: cheapHash,
      authorities: trustedAuthorities(config.channels.ca_file),
    },
  };
}

/** The same control plane with checks and channels allowed to reach this machine. */
export const allowPrivate = (system: System): System => ({
  ...system,
  config: { ...system.config, security: { ...system.config.security, allow_private_targets: true } },
});

/** A new organisation, as the context of its owner with every scope. */
export async function newOrg(system: System, plan = "selfhost"): Promise<Ctx> {
  const [orgId, userId, at] = [newId(), newId(), new Date(system.clock.now())];
  await system.sql`
    insert into orgs (id, slug, name, plan_id, created_at, updated_at)
    values (${orgId}, ${`org-${orgId}`}, 'Acme', ${plan}, ${at}, ${at})`;
  await system.sql`insert into users (id, email, created_at) values (${userId}, ${`${userId}@example.org`}, ${at})`;
  await system.sql`
    insert into memberships (org_id, user_id, role, created_at) values (${orgId}, ${userId}, 'owner', ${at})`;
  return {
    ...system,
    orgId,
    userId,
    role: "owner",
    scopes: new Set<string>(scopes),
    actor: { type: "session", id: null },
    writeSource: "api",
    traceId: null,
  };
}

/** A new agent of a region, as its context; it has not pulled yet. */
export async function newAgent(system: System, region = "eu"): Promise<AgentCtx & { token: string }> {
  const [agentId, token] = [newId(), newToken("sm_agent_")];
  await system.sql`
    insert into agents (id, region_id, name, token_hash, created_at)
    values (${agentId}, ${region}, ${`agent ${agentId}`}, ${hashToken(token)}, ${new Date(system.clock.now())})`;
  return { ...system, agentId, region, token };
}

export interface Refusal {
  code: string;
  field: string | null;
  message: string;
  details: unknown;
  retryAfterSecs: number | null;
}

/** The AppError that `work` throws. Any other outcome fails the test. */
export async function refusal(t: Test, work: () => unknown): Promise<Refusal> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    const { code, field, message, details, retryAfterSecs } = error;
    return { code, field, message, details, retryAfterSecs };
  }
  t.fail("nothing was thrown");
  return { code: "", field: null, message: "", details: null, retryAfterSecs: null };
}
