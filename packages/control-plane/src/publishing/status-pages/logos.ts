import { AppError } from "@statusmesh/shared/errors";
import { record } from "../../access/audit/service.ts";
import { type Ctx, inTransaction, requireOwner, requireScope, type System } from "../../platform/context.ts";
import { findPage, lockedPage } from "./find.ts";
import { logoImage } from "./logo-image.ts";
import * as queries from "./logo-queries.ts";

/**
 * Sets the logo of a page from an upload (base64): PNG, JPEG or WebP, encoded again and scaled down. Throws
 * STATUS_PAGE_NOT_FOUND, PAYLOAD_TOO_LARGE, LOGO_FORMAT_UNSUPPORTED, LOGO_TOO_MANY_PIXELS and LOGO_UNREADABLE.
 */
export async function setLogo(ctx: Ctx, pageId: string, base64: string): Promise<void> {
  requireScope(ctx, "status_page:write");
  requireOwner(ctx);
  await findPage(ctx, pageId);
  const { max_logo_size_bytes: maxBytes, max_logo_dimension_px: maxSide } = ctx.config.public_status;
  const upload = Buffer.from(base64, "base64");
  if (upload.length > maxBytes)
    throw new AppError("PAYLOAD_TOO_LARGE", `The logo has ${upload.length} bytes. Up to ${maxBytes} are accepted.`);
  const image = await logoImage(upload, maxSide);
  await inTransaction(ctx, async (own) => {
    const before = await lockedPage(own, pageId);
    await queries.storeLogo(own.sql, ctx.orgId, pageId, image, new Date(ctx.clock.now()));
    await record(own, { resourceId: pageId, before: { logo: before.logo_hash }, after: { logo: image.hash } });
  });
}

/** Removes the logo of a page; a page without one stays as it is. Throws STATUS_PAGE_NOT_FOUND. */
export async function removeLogo(ctx: Ctx, pageId: string): Promise<void> {
  requireScope(ctx, "status_page:write");
  requireOwner(ctx);
  await inTransaction(ctx, async (own) => {
    const before = await lockedPage(own, pageId);
    await queries.deleteLogo(own.sql, ctx.orgId, pageId);
    await record(own, { resourceId: pageId, before: { logo: before.logo_hash }, after: { logo: null } });
  });
}

/** Path of a logo on every host of the service. */
export const logoPath = (hash: string): string => `/status-assets/${hash}`;

/** The file of a logo, by its hash; null for an unknown hash. */
export async function logoFile(system: System, hash: string): Promise<queries.LogoFileRow | null> {
  return await queries.selectLogoFile(system.sql, hash);
}
