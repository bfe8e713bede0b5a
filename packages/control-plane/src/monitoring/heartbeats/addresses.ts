import { AppError } from "@statusmesh/shared/errors";
import { type AddressKind, digestOf, isAddress, keyOf } from "@statusmesh/shared/pings/address";

/** How an address of a product is written. */
const forms: Readonly<Record<AddressKind, string>> = {
  healthchecks: "the UUID of its ping URL",
  healthchecks_slug: "the ping key and the slug with a slash between them",
  kuma: "the token of its push URL, at least 8 characters",
  better_stack: "the token of its heartbeat URL, at least 8 characters",
  gatus: "the key of the endpoint and its token with a colon between them",
};

/** Stored lookup key of an address: SHA-256 in hex. */
export const hashOf = (kind: AddressKind | "own", value: string): string => keyOf(digestOf(kind, value));

/** Throws INVALID_HEARTBEAT for a value that no job of the product could use. */
export function addressRule(kind: AddressKind, value: string, field: string): void {
  if (isAddress(kind, value)) return;
  throw new AppError("INVALID_HEARTBEAT", `This is no address of ${kind}. Write ${forms[kind]}.`, { field });
}

export const hintOf = (value: string): string => value.slice(-4);
