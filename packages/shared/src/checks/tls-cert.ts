import Type, { type Static } from "typebox";
import { checkAll, rule } from "../faults.ts";
import type { FieldForm } from "../form.ts";
import { daysAgo, DaysRemaining, Expiry, expiryInWords, inDays } from "./expiry.ts";
import { type CheckKind, documentIn, timeout } from "./kind.ts";
import { hostOrThrow, refuseInvisible, serverName } from "./host.ts";
import { hostAndPort } from "./shell.ts";

const days = (fallback: number, minimum: number, description: string, form: FieldForm) =>
  Type.Integer({ minimum, maximum: 3650, default: fallback, errorCode: "INVALID_TLS_CERT_PARAMS", description, form });
/** Title of the collapsed part of the form. */
const section = "Advanced TLS options";

export const TlsCertCheck = Type.Object(
  {
    type: Type.Literal("tls_cert"),
    host: Type.String({
      minLength: 1,
      maxLength: 253,
      errorCode: "INVALID_TCP_HOST",
      description: "Host name or IP address",
      examples: ["shop.example.org"],
      form: { hint: "A host name or an IP address." },
    }),
    port: Type.Integer({
      minimum: 1,
      maximum: 65_535,
      default: 443,
      errorCode: "INVALID_TCP_PORT",
      description: "TCP port",
      form: { beside: true },
    }),
    server_name: Type.Union([Type.String({ minLength: 1, maxLength: 253 }), Type.Null()], {
      default: null,
      errorCode: "INVALID_TLS_CERT_PARAMS",
      description: "Server name (SNI); defaults to the host",
      form: { section, label: "Server name (SNI)", hint: "Empty uses the host." },
    }),
    warn_days: days(14, 1, "Fewer whole days left than this: degraded", {
      label: "Warn when fewer than (days)",
      hint: "Degraded below this many days of certificate left.",
    }),
    critical_days: days(7, 0, "Fewer whole days left than this: down; must be below warn_days", {
      label: "Critical when fewer than (days)",
      hint: "Down below this. Less than the warning.",
      beside: true,
    }),
    timeout: timeout({ section, beside: true, hint: "Includes name resolution, connect and handshake." }),
  },
  { additionalProperties: false, title: "TlsCertCheck" },
);
export type TlsCertCheck = Static<typeof TlsCertCheck>;

const CommonName = (whose: string, example: string) =>
  Type.Union([Type.String({ maxLength: 200 }), Type.Null()], {
    description: `Common name of ${whose}; null where there is none`,
    examples: [example],
  });

/** Data of the certificate; the error of a result that is not up is the same document as JSON. */
export const CertificateDetails = Type.Object(
  {
    days_remaining: DaysRemaining,
    not_after: Expiry("End of the certificate's validity, RFC 3339, UTC"),
    subject_common_name: CommonName("the subject", "shop.example.org"),
    issuer_common_name: CommonName("the issuer", "R11"),
  },
  { additionalProperties: false, title: "CertificateDetails", description: "The certificate of a tls_cert check" },
);
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
      () => refuseInvisible(spec.server_name ?? "", "INVALID_TLS_CERT_PARAMS", "/server_name"),
      () => hostOrThrow(spec.host, "/host"),
      () => serverName(spec),
      rule(
        spec.warn_days > spec.critical_days,
        "INVALID_TLS_CERT_PARAMS",
        `warn_days (${spec.warn_days}) must be more than critical_days (${spec.critical_days}): a certificate ` +
          "is degraded first and down later.",
        "/warn_days",
      ),
    );
  },

  destination: (spec) => ({ host: hostOrThrow(spec.host, "/host"), port: spec.port, pointer: "/host" }),
  subject: (spec) => (spec.server_name === null ? null : { name: serverName(spec), pointer: "/server_name" }),
  mapSecrets: (spec) => spec,
  secretsGoTo: () => null,
  shell: { subject: "<host[:port]>", read: hostAndPort },
  summary: (spec) => `certificate of ${spec.server_name ?? spec.host}${spec.port === 443 ? "" : `, port ${spec.port}`}`,
  searchText: (spec) => [spec.host, ...(spec.server_name === null ? [] : [spec.server_name])].join("\n"),

  details: {
    schema: CertificateDetails,
    expiresAt: ({ not_after }) => Date.parse(not_after),
    inWords: ({ not_after, issuer_common_name: issuer }, now) =>
      expiryInWords(Date.parse(not_after), now) + (issuer === null ? "" : `, issued by ${issuer}`),
  },

  errorInWords(error) {
    const { not_after, days_remaining: left, subject_common_name: name } = documentIn(error);
    if (typeof not_after !== "string" || typeof left !== "number") return null;
    const whose = typeof name === "string" ? `certificate of ${name}` : "certificate";
    const date = not_after.slice(0, 10);
    return left < 0 ? `${whose} expired ${daysAgo(left)}, on ${date}` : `${whose} expires ${inDays(left)}, on ${date}`;
  },
};
