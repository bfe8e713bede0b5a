import Type, { type Static } from "typebox";
import { Line } from "@statusmesh/shared/text";
import {
  Id,
  ignoredWhenSent,
  nullable,
  OneOf,
  PageOf,
  paging,
  Patch,
  Shape,
  Text,
  Timestamp,
} from "../../platform/http/wire.ts";

const errorCode = "INVALID_CERTIFICATE";

const fields = {
  name: Line({
    maxLength: 80,
    emptyCode: "EMPTY_NAME",
    description: "Name in lists, up to 80 characters",
    examples: ["Internal CA"],
  }),
  kind: OneOf(
    ["ca", "client"],
    "ca: authorities that replace those the agent trusts; client: a certificate that checks present, with its key",
    "ca",
  ),
  certificate: Type.String({
    minLength: 1,
    maxLength: 65_536,
    errorCode,
    description:
      "PEM, at most 64 KiB and 32 certificates. ca: each is trusted; client: the certificate and its intermediates. " +
      "Only the certificates are kept, not the text between them",
    examples: ["-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIU…\n-----END CERTIFICATE-----\n"],
  }),
};
const privateKey = Type.String({
  minLength: 1,
  maxLength: 65_536,
  errorCode,
  description: "Private key of a client certificate, PEM: PKCS #8, PKCS #1 or SEC 1. Stored sealed; reads as ***",
  examples: ["-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49…\n-----END PRIVATE KEY-----\n"],
});
const password = Type.String({
  maxLength: 1024,
  errorCode,
  description:
    "Passphrase of the private key. It is used once and not stored: PBKDF2 of at most 100,000 rounds, or scrypt of " +
    "at most N·r·p = 2^18",
  examples: ["correct horse battery staple"],
});
const secrets = { private_key: Type.Optional(nullable(privateKey)), password: Type.Optional(nullable(password)) };
const ignored = {
  subject: ignoredWhenSent,
  expires_at: ignoredWhenSent,
  used_by: ignoredWhenSent,
  warnings: ignoredWhenSent,
};

export const CertificateCreate = Shape("CertificateCreate", "A new certificate", { ...fields, ...secrets, ...ignored });
export type CertificateCreate = Static<typeof CertificateCreate>;

export const CertificatePatch = Patch(
  "CertificatePatch",
  { name: "Internal CA 2027" },
  { ...fields, private_key: nullable(privateKey), password: nullable(password), ...ignored },
);
export type CertificatePatch = Static<typeof CertificatePatch>;

export const Certificate = Shape("Certificate", "Certificates that checks use; the private key is masked as ***", {
  id: Id,
  ...fields,
  private_key: nullable(Text("*** for a client certificate, null for an authority", "***")),
  subject: Text("Subject of the first certificate", "CN=Internal CA, O=Example"),
  expires_at: Type.Unsafe<string>({ ...Timestamp, description: "When the first of the certificates ends" }),
  used_by: Type.Integer({ minimum: 0, description: "Number of targets that name it", examples: [3] }),
  warnings: Type.Array(Text("A sentence", "Expired 3 days ago, on 25 November 2026."), {
    description: "What makes checks fail, now or soon",
  }),
  created_at: Timestamp,
  updated_at: Timestamp,
});
export type Certificate = Static<typeof Certificate>;

export const CertificatePage = PageOf(Certificate);
export const CertificateQuery = Type.Object({
  kind: Type.Optional(OneOf(["ca", "client"], "Only those of this kind")),
  ...paging(100, 1000),
});
export type CertificateQuery = Static<typeof CertificateQuery>;
