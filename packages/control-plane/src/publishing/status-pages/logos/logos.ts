import { AppError } from "@statusmesh/shared/errors";
import { record } from "../../../access/audit/service.ts";
import { type Ctx, requireOwner, type System } from "../../../platform/context.ts";
import { newToken } from "../../../platform/crypto/token.ts";
import { isPrivate } from "../access/access.ts";
import { changePage, findPage } from "../find.ts";
import { logoImage } from "./logo-image.ts";
import * as queries from "./queries.ts";
import type { LogoTheme } from "./queries.ts";
import type { StatusPageRow } from "../queries.ts";

/**
 * Sets the logo of a page for a theme from an upload (base64): PNG, JPEG or WebP, encoded again and scaled down. Throws
 * STATUS_PAGE_NOT_FOUND, PAYLOAD_TOO_LARGE, LOGO_FORMAT_UNSUPPORTED, LOGO_TOO_MANY_PIXELS and LOGO_UNREADABLE.
 */
export async function setLogo(ctx: Ctx, pageId: string, theme: LogoTheme, base64: string): Promise<void> {
  requireOwner(ctx, "status_page:write");
  await findPage(ctx, pageId);
  const { max_logo_size_bytes: maxBytes, max_logo_dimension_px: maxSide } = ctx.config.public_status;
  const upload = Buffer.from(base64, "base64");
  if (upload.length > maxBytes)
    throw new AppError("PAYLOAD_TOO_LARGE", `The logo has ${upload.length} bytes. Up to ${maxBytes} are accepted.`);
  const image = await logoImage(upload, maxSide);
  await changePage(ctx, pageId, async (own, before) => {
    // The hash of a known image would be an address that anybody can compute.
    const stored = isPrivate(before) ? { ...image, hash: newToken("") } : image;
    await queries.storeLogo(own.sql, ctx.orgId, pageId, theme, stored, new Date(ctx.clock.now()));
    await record(own, { resourceId: pageId, ...logoChange(before, theme, stored.hash) });
  });
}

/** Removes the logo of a page for a theme; a page without one stays as it is. Throws STATUS_PAGE_NOT_FOUND. */
export async function removeLogo(ctx: Ctx, pageId: string, theme: LogoTheme): Promise<void> {
  await changePage(ctx, pageId, async (own, before) => {
    await queries.deleteLogo(own.sql, ctx.orgId, pageId, theme);
    await record(own, { resourceId: pageId, ...logoChange(before, theme, null) });
  });
}

/** What the audit log has of a changed logo. */
const logoChange = (page: StatusPageRow, theme: LogoTheme, hash: string | null) =>
  theme === "light"
    ? { before: { logo: page.logo_hash }, after: { logo: hash } }
    : { before: { logo_dark: page.logo_dark_hash }, after: { logo_dark: hash } };

/** Path of a logo on every host of the service. */
export const logoPath = (hash: string): string => `/status-assets/${hash}`;

/** Public address of a logo; null without one. */
export const logoUrl = ({ config }: System, hash: string | null): string | null =>
  hash === null ? null : `${config.server.public_url}${logoPath(hash)}`;

/** The file of a logo, by its hash; null for an unknown hash. */
export async function logoFile(system: System, hash: string): Promise<queries.LogoFileRow | null> {
  return await queries.selectLogoFile(system.sql, hash);
}
