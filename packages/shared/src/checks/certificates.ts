import Type, { type Static } from "typebox";
import { AppError } from "../errors.ts";
import { idPatternInAnyCase } from "../ids.ts";
import { Closed, nullable } from "../schema/shapes.ts";
import { IdText } from "../text.ts";

const errorCode = "INVALID_TLS_CERT_PARAMS";
const idOf = (description: string) =>
  Type.Optional(
    Type.Unsafe<string | null>(
      nullable(
        IdText({
          pattern: idPatternInAnyCase,
          format: "uuid",
          errorCode,
          description,
          examples: ["01931f2e-7c1a-7d30-9b5e-2f6a4c8d1e90"],
        }),
      ),
    ),
  );

const Certificates = Closed(
  {
    ca_id: idOf(
      "Certificate of the kind ca: it replaces the authorities that the agent trusts; null: those of the agent",
    ),
    client_id: idOf(
      "Certificate of the kind client, which is presented to the server, and to no other origin after a redirect; " +
        "null: none",
    ),
  },
  { errorCode },
);

/** Stored certificates that a check uses, by id. */
export type Certificates = Static<typeof Certificates>;

/** A kind of stored certificates. */
export type CertificateKind = "ca" | "client";

/** The field of a kind that connects with TLS. {@link certificatesRule} has its other rule. */
export const certificatesField = (section: string) =>
  Type.Optional(
    Type.Union([Certificates, Type.Null()], {
      default: null,
      errorCode,
      description: "Stored certificates (/api/v1/certificates) for the TLS of this check; null: none",
      examples: [null],
      form: { section, label: "Certificates", view: { name: "targets/fields/certificates" } },
    }),
  );

interface WithCertificates {
  certificates?: Certificates | null;
}

/** Ids of the certificates that a check of any kind names, with the pointer of each in the check. */
export function certificatesOf(spec: object): { id: string; kind: CertificateKind; pointer: string }[] {
  const { certificates } = spec as WithCertificates;
  return (["ca", "client"] as const).flatMap((kind) => {
    const id = certificates?.[`${kind}_id`] ?? null;
    return id === null ? [] : [{ id, kind, pointer: `/certificates/${kind}_id` }];
  });
}

/** The check with both ids, or null in place of none. */
export function withWholeCertificates<S extends object>(spec: S): S {
  const { certificates = null } = spec as WithCertificates;
  if (certificates === null) return spec;
  const { ca_id = null, client_id = null } = certificates;
  return { ...spec, certificates: ca_id === null && client_id === null ? null : { ca_id, client_id } };
}

/** Throws for certificates of a check that never uses TLS. `remedy`: how it would. */
export function certificatesRule(spec: WithCertificates, usesTls: boolean, remedy: string): void {
  const [first] = certificatesOf(spec);
  if (usesTls || first === undefined) return;
  throw new AppError(errorCode, `A connection without TLS uses no certificates. ${remedy} or remove them.`, {
    field: first.pointer,
  });
}
