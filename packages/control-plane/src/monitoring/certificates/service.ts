import { createHash } from "node:crypto";
import type { SentCertificate } from "@statusmesh/shared/protocol/agent-protocol";
import { type CertificateKind, certificatesOf } from "@statusmesh/shared/checks/certificates";
import { daysLeft, expiryInWords } from "@statusmesh/shared/checks/expiry";
import { AppError } from "@statusmesh/shared/errors";
import { below, checkAll } from "@statusmesh/shared/schema/faults";
import { isId, newId } from "@statusmesh/shared/ids";
import { mask } from "@statusmesh/shared/secrets";
import { differences, record } from "../../access/audit/service.ts";
import { takeOne } from "../../access/plans/service.ts";
import { type ActorCtx, type Ctx, inTransaction, requireScope, type System } from "../../platform/context.ts";
import { countUnreadable, type ReadBatch, unreadable } from "../../platform/crypto/opening.ts";
import { resealer } from "../../platform/crypto/reseal.ts";
import { UnreadableSecret } from "../../platform/crypto/seal.ts";
import { unlessTaken } from "../../platform/db/client/sql.ts";
import { isoTimes, type Page, pageOf } from "../../platform/http/wire.ts";
import { wakePulls } from "../regions/service.ts";
import * as queries from "./queries.ts";
import { readMaterial } from "./reading.ts";
import type { Certificate, CertificateCreate, CertificatePatch, CertificateQuery } from "./schema.ts";

/** Authorities and client certificates of an organisation, which its checks name. */

/** Days before its end from which a certificate has a warning. */
const warningDays = 30;
const shownUsers = 5;

const placeOf = (id: string): string => `certificates/${id}/private_key`;

/** The certificates by kind and name. */
export async function listCertificates(ctx: Ctx, { kind, ...page }: CertificateQuery): Promise<Page<Certificate>> {
  requireScope(ctx, "targets:read");
  const [rows, used] = await Promise.all([
    queries.selectCertificates(ctx.sql, ctx.orgId, kind ?? null, page),
    queries.countUsers(ctx.sql, ctx.orgId),
  ]);
  return pageOf(rows, page, (row) => present(ctx, row, used));
}

/** One certificate. Throws CERTIFICATE_NOT_FOUND. */
export async function getCertificate(ctx: Ctx, id: string): Promise<Certificate> {
  requireScope(ctx, "targets:read");
  return present(ctx, await find(ctx, id), await queries.countUsers(ctx.sql, ctx.orgId));
}

/** The targets that name a certificate: the first by name, and how many. */
export async function usersOf(ctx: Ctx, id: string): Promise<{ first: { id: string; name: string }[]; total: number }> {
  requireScope(ctx, "targets:read");
  return await users(ctx, await find(ctx, id));
}

/**
 * Stores a certificate. Throws INVALID_CERTIFICATE, CERTIFICATE_KEY_MISMATCH, CERTIFICATE_NAME_TAKEN, and
 * QUOTA_EXCEEDED at the plan's limit.
 */
export async function createCertificate(ctx: Ctx, input: CertificateCreate): Promise<Certificate> {
  requireScope(ctx, "targets:write");
  if (input.private_key === mask) throw maskSent();
  const { kind, name } = input;
  const pem = input.private_key ?? null;
  const read = await readMaterial(
    kind,
    input.certificate,
    pem === null ? null : { pem, password: input.password ?? null },
  );
  const now = new Date(ctx.clock.now());
  const id = newId();
  const row = {
    id,
    org_id: ctx.orgId,
    name,
    kind,
    ...read,
    private_key: sealed(ctx, id, read.private_key),
    created_at: now,
    updated_at: now,
  };
  return await inTransaction(ctx, async (tx) => {
    await takeOne(tx, "max_certificates", () => queries.countCertificates(tx.sql, ctx.orgId));
    if (!(await queries.insertCertificate(tx.sql, row))) throw nameTaken(name);
    await record(tx, { resourceId: id, after: auditable(row) });
    return present(tx, row, new Map());
  });
}

/**
 * Changes the given fields; a new certificate is judged with the stored key unless the patch brings one. Agents are
 * sent it, and the checks that name it run soon. Throws also CERTIFICATE_NOT_FOUND and SECRET_UNREADABLE.
 */
export async function changeCertificate(ctx: Ctx, id: string, patch: CertificatePatch): Promise<Certificate> {
  requireScope(ctx, "targets:write");
  for (;;) {
    const changed = await change(ctx, await find(ctx, id), patch);
    if (changed !== null) return changed;
  }
}

/** {@link changeCertificate} of what was read; null where another edit came first. */
async function change(ctx: Ctx, stored: queries.CertificateRow, patch: CertificatePatch): Promise<Certificate | null> {
  const { id } = stored;
  if (patch.kind !== undefined && patch.kind !== stored.kind)
    throw new AppError(
      "INVALID_CERTIFICATE",
      `The kind cannot change from ${stored.kind}. Store another certificate.`,
      {
        field: "/kind",
      },
    );
  const read = await readPatch(ctx, stored, patch);
  return await inTransaction(ctx, async (tx) => {
    const before = await find(tx, id, "edits");
    // The material was judged with what was stored then.
    if (read !== null && before.updated_at.getTime() !== stored.updated_at.getTime()) return null;
    const after = {
      ...before,
      ...(read === null ? {} : { ...read, private_key: sealed(tx, id, read.private_key) }),
      name: patch.name ?? before.name,
      // Strictly later, so that each edit shows in it.
      updated_at: new Date(Math.max(ctx.clock.now(), before.updated_at.getTime() + 1)),
    };
    await unlessTaken(queries.updateCertificate(tx.sql, after), (cause) => nameTaken(after.name, cause));
    if (read !== null) {
      await queries.touchUsers(tx.sql, after, after.updated_at);
      await wakePulls(tx.sql);
    }
    const shown = { before: auditable(before), after: auditable(after) };
    await record(tx, { resourceId: id, ...differences(shown, { before: withKey(before), after: withKey(after) }) });
    return present(tx, after, await queries.countUsers(tx.sql, tx.orgId));
  });
}

/** The material after a patch; null where it stays. */
async function readPatch(ctx: Ctx, stored: queries.CertificateRow, patch: CertificatePatch) {
  const sent = patch.private_key === mask ? undefined : (patch.private_key ?? undefined);
  if (patch.certificate === undefined && sent === undefined) return null;
  const key = (): { pem: string; password: string | null } | null => {
    if (sent !== undefined) return { pem: sent, password: patch.password ?? null };
    return stored.private_key === null ? null : { pem: opened(ctx, stored.id, stored.private_key), password: null };
  };
  return await readMaterial(stored.kind, patch.certificate ?? stored.certificate, key());
}

/** Deletes a certificate that no target names. Throws CERTIFICATE_NOT_FOUND and CERTIFICATE_IN_USE. */
export async function removeCertificate(ctx: Ctx, id: string): Promise<void> {
  requireScope(ctx, "targets:write");
  await inTransaction(ctx, async (tx) => {
    const row = await find(tx, id, "uses");
    const { first, total } = await users(tx, row);
    if (total > 0)
      throw new AppError(
        "CERTIFICATE_IN_USE",
        `${total} ${total === 1 ? "monitor uses" : "monitors use"} this certificate: ` +
          `${first.map(({ name }) => name).join(", ")}${total > first.length ? " …" : ""}. Change them first.`,
        { details: { used_by: total, targets: first } },
      );
    await queries.deleteCertificate(tx.sql, ctx.orgId, id);
    await record(tx, { resourceId: id, before: auditable(row) });
  });
}

async function users(ctx: Ctx, row: queries.CertificateRow) {
  const rows = await queries.selectUsers(ctx.sql, row, shownUsers);
  return { first: rows.map(({ id, name }) => ({ id, name })), total: rows[0]?.total ?? 0 };
}

/** Ids and names of all certificates by kind, for the forms that choose among them. */
export async function certificateChoices(ctx: Ctx): Promise<Record<CertificateKind, [id: string, name: string][]>> {
  requireScope(ctx, "targets:read");
  const choices: Record<CertificateKind, [id: string, name: string][]> = { ca: [], client: [] };
  for (const { id, name, kind, expires_at: end } of await queries.selectChoices(ctx.sql, ctx.orgId))
    choices[kind].push([id, end.getTime() < ctx.clock.now() ? `${name} (expired)` : name]);
  return choices;
}

/** Kinds of the organisation's certificates by id, as far as {@link certificateRule} needs them. */
export type KnownCertificates = ReadonlyMap<string, CertificateKind>;

/** The certificates that checks may name, where one of these names any; in a transaction none is deleted meanwhile. */
export async function knownCertificates(
  { sql, orgId }: ActorCtx,
  checks: Iterable<object>,
  keep = true,
): Promise<KnownCertificates> {
  for (const check of checks)
    if (certificatesOf(check).length > 0)
      return new Map((await queries.selectChoices(sql, orgId, keep)).map(({ id, kind }) => [id, kind]));
  return new Map();
}

/** Throws INVALID_TLS_CERT_PARAMS for a certificate that the organisation does not have, or that is of another kind. */
export function certificateRule(check: object, known: KnownCertificates, base = "/check"): void {
  const faults = certificatesOf(check).map(({ id, kind, pointer }) => () => {
    const found = known.get(id);
    if (found === kind) return;
    throw new AppError(
      "INVALID_TLS_CERT_PARAMS",
      found === undefined
        ? "There is no certificate with this id."
        : `This certificate is of the kind ${found}. Name it in ${found}_id.`,
      { field: pointer },
    );
  });
  below(base, () => checkAll(...faults));
}

/**
 * The certificates for agents, each once, by id. One that is gone is absent, and a reason stands in place of one whose
 * key does not open.
 */
export async function certificatesToSend(
  { sql, sealer, log }: System,
  named: readonly { orgId: string; id: string }[],
): Promise<Map<string, SentCertificate | { reason: string }>> {
  if (named.length === 0) return new Map();
  const rows = await queries.selectMaterial(sql, named);
  return new Map(
    rows.map(({ id, certificate, private_key: key }): [string, SentCertificate | { reason: string }] => {
      try {
        return [id, { id, certificate, private_key: key === null ? null : opened({ sealer }, id, key) }];
      } catch (error) {
        if (!(error instanceof AppError) || error.code !== "SECRET_UNREADABLE") throw error;
        log.error({ certificate: id, reason: error.message }, "checks cannot run: a private key cannot be opened");
        return [id, { reason: error.message }];
      }
    }),
  );
}

/** Counts the keys that do not open, of up to `limit` after `after`. For the doctor. */
export async function unreadableKeys({ sql, sealer }: System, after: string | null, limit: number): Promise<ReadBatch> {
  return countUnreadable(await queries.selectKeys(sql, after, limit), limit, ({ id, private_key: key }) =>
    opened({ sealer }, id, key),
  );
}

/** Client certificates of all organisations that enabled checks name and that end before a time. */
export async function endingClientCertificates(
  { sql }: Pick<System, "sql">,
  before: Date,
): Promise<queries.EndingCertificate[]> {
  return await queries.selectEnding(sql, before);
}

/** Seals private keys under the current key. Agents are not sent them: they stay the same. */
export const resealKeys = resealer({
  rows: (sql, after, limit) => queries.selectKeys(sql, after, limit, { lock: true }),
  map: ({ id, private_key: key }, change) => change(key, placeOf(id)),
  store: queries.storeKey,
});

const sealed = ({ sealer }: Pick<System, "sealer">, id: string, key: string | null): string | null =>
  key === null ? null : sealer.seal(key, placeOf(id));

function opened({ sealer }: Pick<System, "sealer">, id: string, key: string): string {
  try {
    return sealer.open(key, placeOf(id));
  } catch (error) {
    if (!(error instanceof UnreadableSecret)) throw error;
    throw unreadable("/private_key", "the certificate cannot be used", error);
  }
}

async function find(ctx: Ctx, id: string, lock: "edits" | "uses" | null = null): Promise<queries.CertificateRow> {
  const row = isId(id) ? await queries.selectCertificate(ctx.sql, ctx.orgId, id, lock) : null;
  if (row === null) throw new AppError("CERTIFICATE_NOT_FOUND", "Certificate not found.");
  return row;
}

const nameTaken = (name: string, cause?: unknown) =>
  new AppError("CERTIFICATE_NAME_TAKEN", `There is a certificate ${name} already. Choose a different name.`, {
    field: "/name",
    cause,
  });

const maskSent = () =>
  new AppError("REDACTION_SENTINEL", "*** stands for a stored private key. Send the key itself.", {
    field: "/private_key",
  });

const auditable = ({ name, kind, certificate, private_key: key, subject, expires_at }: queries.CertificateRow) => ({
  name,
  kind,
  certificate_sha256: createHash("sha256").update(certificate).digest("hex"),
  private_key: key === null ? null : mask,
  subject,
  expires_at: expires_at.toISOString(),
});

/** With the sealed key, which is another one after each change. */
const withKey = (row: queries.CertificateRow) => ({ ...auditable(row), private_key: row.private_key });

function present(ctx: System, row: queries.CertificateRow, used: ReadonlyMap<string, number>): Certificate {
  const { org_id: _, private_key: key, created_at, updated_at, ...shown } = row;
  const now = ctx.clock.now();
  const end = row.expires_at.getTime();
  return isoTimes({
    ...shown,
    private_key: key === null ? null : mask,
    used_by: used.get(row.id) ?? 0,
    warnings: daysLeft(end, now) < warningDays ? [`${expiryInWords(end, now)}.`] : [],
    created_at,
    updated_at,
  });
}
