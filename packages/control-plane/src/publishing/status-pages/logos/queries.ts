import { type Db, firstOf } from "../../../platform/db/client/sql.ts";
import type { LogoImage } from "./logo-image.ts";

/** The theme of the page that shows a logo. */
export type LogoTheme = "light" | "dark";

/** Stores the logo of a page of the organisation for a theme, in place of its last one. */
export async function storeLogo(
  sql: Db,
  orgId: string,
  pageId: string,
  theme: LogoTheme,
  { hash, mediaType, width, height, bytes }: LogoImage,
  now: Date,
): Promise<void> {
  await sql`
    insert into status_page_logos (page_id, theme, org_id, hash, media_type, width, height, bytes, created_at)
    select p.id, ${theme}, p.org_id, ${hash}, ${mediaType}, ${width}, ${height}, ${bytes}, ${now}
    from status_pages p where p.org_id = ${orgId} and p.id = ${pageId}
    on conflict (page_id, theme) do update set hash = excluded.hash, media_type = excluded.media_type,
      width = excluded.width, height = excluded.height, bytes = excluded.bytes, created_at = excluded.created_at`;
}

/** Gives the logos of a page new addresses: what was served at their old ones may have been kept on the way. */
export async function readdressLogos(sql: Db, orgId: string, pageId: string): Promise<void> {
  await sql`
    update status_page_logos
    set hash = rtrim(translate(encode(sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8')),
      'base64'), '+/', '-_'), '=')
    where org_id = ${orgId} and page_id = ${pageId}`;
}

/** Removes the logo of a page for a theme. */
export async function deleteLogo(sql: Db, orgId: string, pageId: string, theme: LogoTheme): Promise<void> {
  await sql`delete from status_page_logos where org_id = ${orgId} and page_id = ${pageId} and theme = ${theme}`;
}

export interface LogoFileRow {
  page_id: string;
  media_type: string;
  bytes: Buffer;
}

/** The logo at that address, of any page of an organisation that is not deleted. A private page shares none. */
export async function selectLogoFile(sql: Db, hash: string): Promise<LogoFileRow | null> {
  return await firstOf(sql<LogoFileRow[]>`
    select l.page_id, l.media_type, l.bytes from status_page_logos l
    join orgs o on o.id = l.org_id and o.deleted_at is null
    where l.hash = ${hash} limit 1`);
}
