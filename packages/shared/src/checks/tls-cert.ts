import Type, { type Static } from "typebox";
import { checkAll } from "../schema/faults.ts";
import { asObject, parsedJson } from "../json.ts";
import { certificatesField } from "./certificates.ts";
import { DaysRemaining, Expiry, expiryFields, expiryInWords, expiryRule, expiryShort } from "./expiry.ts";
import { type CheckKind, ipVersion, ipVersionRule, timeout } from "./kind.ts";
import { hostField, hostOrThrow, portField, refuseInvisible, serverName, serverNameField } from "./host.ts";
import { readHostAndPort } from "./shell.ts";
import { startTlsNames, startTlsOptions } from "./starttls.ts";
import { Closed, described, nullable, Shape } from "../schema/shapes.ts";

const errorCode = "INVALID_TLS_CERT_PARAMS";
/** Title of the collapsed part of the form. */
const section = "Advanced TLS options";

export const TlsCertCheck = Closed(
  {
    type: Type.Literal("tls_cert"),
    host: hostField("shop.example.org"),
    port: portField({ default: 443 }),
    server_name: serverNameField("Server name (SNI); defaults to the host", { section, hint: "Empty uses the host." }),
    starttls: Type.Optional(
      Type.Enum(["none", ...startTlsNames], {
        default: "none",
        errorCode,
        description: "Protocol in which TLS is asked for first; none: TLS from the first byte",
        form: { section, label: "STARTTLS", options: { none: "None", ...startTlsOptions((name) => name) } },
      }),
    ),
    ...expiryFields(14, "certificate", errorCode),
    judge: Type.Optional(
      Type.Enum(["leaf", "chain"], {
        default: "leaf",
        errorCode,
        description:
          "leaf: the certificate of the server; chain: whichever certificate on the path to its authority ends first",
        form: {
          section,
          label: "Certificates that count",
          options: { leaf: "The server's own", chain: "All up to the authority" },
        },
      }),
    ),
    timeout: timeout({ section, beside: true, hint: "Includes name resolution, connect and handshake." }),
    ip_version: ipVersion(section),
    certificates: certificatesField(section),
  },
  { title: "TlsCertCheck" },
);
export type TlsCertCheck = Static<typeof TlsCertCheck>;

const CommonName = (whose: string, example: string) =>
  described(nullable(Type.String({ maxLength: 200 })), `Common name of ${whose}; null where there is none`, example);

/** Data of the certificate; the error of a result that is not up is the same document as JSON. */
export const CertificateDetails = Shape("CertificateDetails", "The certificate of a tls_cert check", {
  days_remaining: DaysRemaining,
  not_after: Expiry("End of the certificate's validity, RFC 3339, UTC"),
  subject_common_name: CommonName("the subject", "shop.example.org"),
  issuer_common_name: CommonName("the issuer", "R11"),
  not_before: Type.Optional(Expiry("Begin of the certificate's validity, where that is in the future")),
  leaf_common_name: Type.Optional(
    CommonName(
      "the server's certificate, with `judge: chain`; the others are of the one that ends first",
      "shop.example.org",
    ),
  ),
});
export type CertificateDetails = Static<typeof CertificateDetails>;

export const tlsCert: CheckKind<typeof TlsCertCheck, CertificateDetails> = {
  type: "tls_cert",
  label: "TLS certificate",
  purpose: "Days until it expires",
  icon: "lock",
  schema: TlsCertCheck,
  minIntervalSecs: 3600,
  defaultIntervalSecs: 86_400,

  rules(spec) {
    checkAll(
      () => refuseInvisible(spec.host, "INVALID_TCP_HOST", "/host"),
      () => refuseInvisible(spec.server_name ?? "", errorCode, "/server_name"),
      () => hostOrThrow(spec.host),
      () => ipVersionRule(hostOrThrow(spec.host), spec.ip_version),
      () => serverName(spec),
      expiryRule(spec, "certificate", errorCode),
    );
  },

  destination: (spec) => ({ host: hostOrThrow(spec.host), port: spec.port, pointer: "/host" }),
  subject: (spec) => (spec.server_name === null ? null : { name: serverName(spec), pointer: "/server_name" }),
  mapSecrets: (spec) => spec,
  secretsGoTo: () => null,
  shell: { subject: "<host[:port]>", read: readHostAndPort },
  summary: (spec) => `certificate of ${spec.server_name ?? spec.host}${spec.port === 443 ? "" : `, port ${spec.port}`}`,
  searchText: (spec) => [spec.host, ...(spec.server_name === null ? [] : [spec.server_name])].join("\n"),

  details: {
    schema: CertificateDetails,
    expiresAt: ({ not_after }) => Date.parse(not_after),
    inWords: ({ not_after, issuer_common_name: issuer }, now) =>
      expiryInWords(Date.parse(not_after), now) + (issuer === null ? "" : `, issued by ${issuer}`),
  },

  errorInWords(error) {
    const { not_after, not_before, days_remaining: left, ...names } = asObject(parsedJson(error));
    if (typeof not_after !== "string" || typeof left !== "number") return null;
    const { subject_common_name: name, leaf_common_name: leaf } = names;
    const of = typeof name === "string" ? `certificate of ${name}` : "certificate";
    const what = typeof leaf === "string" && leaf !== name ? `${of}, in the chain of ${leaf},` : of;
    if (typeof not_before === "string") return `${what} is not valid before ${not_before.slice(0, 10)}`;
    return expiryShort(what, left, not_after);
  },
};
