import { type Db, firstOf } from "../../platform/db/sql.ts";
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

/** Removes the logo of a page for a theme. */
export async function deleteLogo(sql: Db, orgId: string, pageId: string, theme: LogoTheme): Promise<void> {
  await sql`delete from status_page_logos where org_id = ${orgId} and page_id = ${pageId} and theme = ${theme}`;
}

export interface LogoFileRow {
  media_type: string;
  bytes: Buffer;
}

/** The logo with that hash, of any page of an organisation that is not deleted. */
export async function selectLogoFile(sql: Db, hash: string): Promise<LogoFileRow | null> {
  return await firstOf(sql<LogoFileRow[]>`
    select l.media_type, l.bytes from status_page_logos l
    join orgs o on o.id = l.org_id and o.deleted_at is null
    where l.hash = ${hash} limit 1`);
}
