import type { ClientCertificates } from "../net/tls.ts";

/** The certificates of a check as an agent has them; null for a check without. */
export function materialOf(spec: object): ClientCertificates | null {
  return (spec as { certificates?: ClientCertificates | null }).certificates ?? null;
}
