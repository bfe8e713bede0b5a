import type { CertificateKind } from "@statusmesh/shared/checks/certificates";
import {
  affectsRow,
  arrayOf,
  countOf,
  type Db,
  firstOf,
  type Listed,
  listed,
  type Paging,
} from "../../platform/db/client/sql.ts";

export interface CertificateRow {
  id: string;
  org_id: string;
  name: string;
  kind: CertificateKind;
  certificate: string;
  /** Sealed; null for an authority. */
  private_key: string | null;
  subject: string;
  expires_at: Date;
  created_at: Date;
  updated_at: Date;
}

/** The field of a check that names certificates of the kind; an index serves each of the two. */
const naming = (sql: Db, kind: CertificateKind) =>
  kind === "ca" ? sql`t.spec #>> '{certificates,ca_id}'` : sql`t.spec #>> '{certificates,client_id}'`;

const columns = (sql: Db) => sql`
  c.id, c.org_id, c.name, c.kind, c.certificate, c.private_key, c.subject, c.expires_at, c.created_at, c.updated_at`;

/** False when the organisation has a certificate with the name. */
export async function insertCertificate(sql: Db, row: CertificateRow): Promise<boolean> {
  return await affectsRow(sql`
    insert into certificates
      (id, org_id, name, kind, certificate, private_key, subject, expires_at, created_at, updated_at)
    values (${row.id}, ${row.org_id}, ${row.name}, ${row.kind}, ${row.certificate}, ${row.private_key}, ${row.subject},
      ${row.expires_at}, ${row.created_at}, ${row.updated_at})
    on conflict (org_id, name) do nothing`);
}

/** Writes every mutable field. A taken name raises a unique violation. */
export async function updateCertificate(sql: Db, row: CertificateRow): Promise<void> {
  await sql`
    update certificates set name = ${row.name}, certificate = ${row.certificate}, private_key = ${row.private_key},
      subject = ${row.subject}, expires_at = ${row.expires_at}, updated_at = ${row.updated_at}
    where org_id = ${row.org_id} and id = ${row.id}`;
}

/** `lock`: against other edits, or also against new uses. */
export async function selectCertificate(
  sql: Db,
  orgId: string,
  id: string,
  lock: "edits" | "uses" | null = null,
): Promise<CertificateRow | null> {
  const locking = lock === null ? sql`` : lock === "uses" ? sql`for update` : sql`for no key update`;
  return await firstOf(sql<CertificateRow[]>`
    select ${columns(sql)} from certificates c where c.org_id = ${orgId} and c.id = ${id} ${locking}`);
}

/** Certificates by kind and name; of both kinds where `kind` is null. */
export async function selectCertificates(
  sql: Db,
  orgId: string,
  kind: CertificateKind | null,
  { limit, offset }: Paging,
): Promise<Listed<CertificateRow>> {
  const from = sql`from certificates c where c.org_id = ${orgId} and (${kind}::text is null or c.kind = ${kind})`;
  const part = sql<CertificateRow[]>`
    select ${columns(sql)} ${from} order by c.kind, natural_key(c.name), c.name limit ${limit} offset ${offset}`;
  return await listed(sql, from, part);
}

/** How many targets of the organisation name each certificate; one that none names is absent. */
export async function countUsers(sql: Db, orgId: string): Promise<Map<string, number>> {
  const rows = await sql<{ id: string; used: number }[]>`
    select id, sum(used)::int as used from (
      select ${naming(sql, "ca")} as id, count(*) as used from targets t
      where t.org_id = ${orgId} and ${naming(sql, "ca")} is not null group by 1
      union all
      select ${naming(sql, "client")}, count(*) from targets t
      where t.org_id = ${orgId} and ${naming(sql, "client")} is not null group by 1
    ) as both_kinds group by id`;
  return new Map(rows.map(({ id, used }) => [id, used]));
}

/** The targets that name a certificate: the first by name, and how many. */
export async function selectUsers(sql: Db, { org_id: orgId, id, kind }: CertificateRow, limit: number) {
  return await sql<{ id: string; name: string; total: number }[]>`
    select t.id, t.name, count(*) over ()::int as total from targets t
    where t.org_id = ${orgId} and ${naming(sql, kind)} = ${id} order by t.sort_name, t.id limit ${limit}`;
}

/** Has agents be sent the targets that name a certificate, and run them soon. In the order of ids, as other edits. */
export async function touchUsers(sql: Db, { org_id: orgId, id, kind }: CertificateRow, at: Date): Promise<void> {
  await sql`
    update targets t set changed_xid = pg_current_xact_id(), version = version + 1, check_version = version + 1,
      run_due_since = case when t.enabled then ${at}::timestamptz else t.run_due_since end
    from (select t.id from targets t where t.org_id = ${orgId} and ${naming(sql, kind)} = ${id}
      order by t.id for no key update of t) named
    where t.id = named.id`;
}

export const countCertificates = async (sql: Db, orgId: string): Promise<number> =>
  await countOf(sql, sql`from certificates where org_id = ${orgId}`);

export async function deleteCertificate(sql: Db, orgId: string, id: string): Promise<void> {
  await sql`delete from certificates where org_id = ${orgId} and id = ${id}`;
}

/** Ids and names of all certificates of the organisation; `keep`: none is deleted until the transaction ends. */
export async function selectChoices(sql: Db, orgId: string, keep = false) {
  return await sql<Pick<CertificateRow, "id" | "name" | "kind" | "expires_at">[]>`
    select id, name, kind, expires_at from certificates where org_id = ${orgId} order by kind, natural_key(name), id
    ${keep ? sql`for key share` : sql``}`;
}

export type Material = Pick<CertificateRow, "id" | "certificate" | "private_key">;

/** The material of certificates of several organisations. */
export async function selectMaterial(sql: Db, named: readonly { orgId: string; id: string }[]): Promise<Material[]> {
  return await sql<Material[]>`
    select c.id, c.certificate, c.private_key from certificates c
    where (c.org_id, c.id) in (select * from unnest(${arrayOf(named.map(({ orgId }) => orgId))}::uuid[],
      ${arrayOf(named.map(({ id }) => id))}::uuid[]))`;
}

/** Private keys of all organisations, in the order of ids. */
export async function selectKeys(sql: Db, after: string | null, limit: number, { lock = false } = {}) {
  return await sql<{ id: string; private_key: string }[]>`
    select id, private_key from certificates
    where private_key is not null and (${after}::uuid is null or id > ${after}::uuid) order by id limit ${limit}
    ${lock ? sql`for no key update` : sql``}`;
}

export async function storeKey(sql: Db, id: string, privateKey: string): Promise<void> {
  await sql`update certificates set private_key = ${privateKey} where id = ${id}`;
}

export interface EndingCertificate {
  name: string;
  /** Name of the organisation. */
  org: string;
  expires_at: Date;
}

/** Client certificates that enabled targets name and that end before a time, the first to end first. */
export async function selectEnding(sql: Db, before: Date): Promise<EndingCertificate[]> {
  return await sql<EndingCertificate[]>`
    select c.name, o.name as org, c.expires_at
    from certificates c join orgs o on o.id = c.org_id
    where c.kind = 'client' and c.expires_at < ${before} and o.deleted_at is null and exists (
      select from targets t where t.org_id = c.org_id and t.enabled and ${naming(sql, "client")} = c.id::text)
    order by c.expires_at limit 1000`;
}
