import { createdIn, ok, route, type Route } from "../../platform/http/route.ts";
import { Certificate, CertificateCreate, CertificatePage, CertificatePatch, CertificateQuery } from "./schema.ts";
import * as service from "./service.ts";

const path = "/api/v1/certificates";
const read = { auth: "tenant", scope: "targets:read", tag: "Certificates" } as const;
const write = { auth: "tenant", scope: "targets:write", tag: "Certificates" } as const;
const material = ["INVALID_CERTIFICATE", "CERTIFICATE_KEY_MISMATCH", "CERTIFICATE_NAME_TAKEN"] as const;

/** Authorities and client certificates that checks name in `certificates`. */
export const certificateRoutes: Route[] = [
  route("GET", path, {
    ...read,
    summary: "List certificates",
    description: "By kind and name.",
    query: CertificateQuery,
    replies: { 200: CertificatePage },
    handle: async ({ ctx, query }) => ok(await service.listCertificates(ctx, query)),
  }),
  route("POST", path, {
    ...write,
    summary: "Store a certificate",
    description:
      "Read, judged and, for a key with a passphrase, decrypted at once. A certificate that has expired is accepted " +
      "with a warning.",
    body: CertificateCreate,
    replies: { 201: Certificate },
    errors: [...material, "REDACTION_SENTINEL", "QUOTA_EXCEEDED"],
    handle: async ({ ctx, body }) => createdIn(`${path}/`, await service.createCertificate(ctx, body)),
  }),
  route("GET", `${path}/{id}`, {
    ...read,
    summary: "Read a certificate",
    replies: { 200: Certificate },
    errors: ["CERTIFICATE_NOT_FOUND"],
    handle: async ({ ctx, params }) => ok(await service.getCertificate(ctx, params.id)),
  }),
  route("PATCH", `${path}/{id}`, {
    ...write,
    summary: "Change a certificate",
    description:
      "A new certificate without a private_key (or with ***) must belong to the stored key. Agents are sent it at " +
      "once, and the checks that name the certificate run soon. The kind cannot change.",
    body: CertificatePatch,
    replies: { 200: Certificate },
    errors: ["CERTIFICATE_NOT_FOUND", ...material, "SECRET_UNREADABLE"],
    handle: async ({ ctx, params, body }) => ok(await service.changeCertificate(ctx, params.id, body)),
  }),
  route("DELETE", `${path}/{id}`, {
    ...write,
    summary: "Delete a certificate that no target uses",
    replies: { 204: null },
    errors: ["CERTIFICATE_NOT_FOUND", "CERTIFICATE_IN_USE"],
    handle: async ({ ctx, params }) => service.removeCertificate(ctx, params.id),
  }),
];
