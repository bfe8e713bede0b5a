import { AppError } from "@statusmesh/shared/errors";
import type { BrandingInput, BrandingRequest } from "./schema.ts";

/**
 * The request with each field of its branding under its own name. Throws INVALID_BODY for a field under both of its
 * names.
 */
export function withOwnNames<T extends { branding?: BrandingRequest }>(
  request: T,
): Omit<T, "branding"> & { branding?: BrandingInput } {
  const { branding: sent, ...others } = request;
  if (sent === undefined) return others;
  const own: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(sent)) {
    if (!name.startsWith("public_")) {
      own[name] = value;
      continue;
    }
    const field = name.slice("public_".length);
    if (Object.hasOwn(sent, field))
      throw new AppError("INVALID_BODY", `${name} and ${field} are two names of one field: send one of them.`, {
        field: `/branding/${name}`,
      });
    const isDefault = value === null || (field === "style" && (value === "default" || value === ""));
    if (!isDefault) own[field] = value;
  }
  return { ...others, branding: own as BrandingInput };
}
