import Type, { type Static } from "typebox";
import { checkAll, rule } from "../schema/faults.ts";
import { hostAndPort } from "../url.ts";
import { certificatesField, certificatesRule } from "./certificates.ts";
import { headersRule, isSecretHeader, mapHeaderSecrets } from "./http-rules.ts";
import { headersOption } from "./http-shell.ts";
import {
  type CheckKind,
  credentialsUnverified,
  degradedAbove,
  ipVersion,
  ipVersionRule,
  thresholdRules,
  timeout,
  verifyTls,
} from "./kind.ts";
import { hostField, hostOrThrow, portField, refuseInvisible, serverName, serverNameField } from "./host.ts";
import { durationOption, readHostAndPort } from "./shell.ts";
import { Shape } from "../schema/shapes.ts";

/** Title of the collapsed part of the form. */
const section = "Advanced gRPC options";

export const GrpcCheck = Shape("GrpcCheck", "Queries the health service of a gRPC server", {
  type: Type.Literal("grpc"),
  host: hostField("orders.example.org"),
  port: portField({ examples: [50_051] }),
  service: Type.String({
    maxLength: 500,
    default: "",
    description: "Name of the service; empty: the server as a whole",
    examples: ["shop.v1.Orders"],
    form: { hint: "As registered on the server. Empty checks the server as a whole." },
  }),
  tls: Type.Boolean({
    default: true,
    description: "false connects without encryption",
    form: { label: "Encryption (TLS)" },
  }),
  metadata: Type.Optional(
    Type.Record(Type.String(), Type.String({ maxLength: 8192 }), {
      default: {},
      maxProperties: 20,
      description:
        "Sent with the call. Values read as ***, except those of headers that never authenticate. Values of names " +
        "that end with -bin are base64",
      form: {
        section,
        placeholder: "authorization: Bearer …",
        hint: "One per line, name and value. Values are encrypted.",
        maskedHint:
          "One per line. *** is a stored value: leave the list unchanged to keep it, or enter every value again.",
      },
    }),
  ),
  verify_tls: verifyTls(section, "false accepts any certificate; not together with metadata that authenticates"),
  certificates: certificatesField(section),
  server_name: serverNameField("Name of the server (SNI and :authority); null: the host", {
    section,
    hint: "Empty uses the host.",
  }),
  timeout: timeout({ section }),
  degraded_above_ms: degradedAbove({ section, beside: true }),
  ip_version: ipVersion(section),
});
export type GrpcCheck = Static<typeof GrpcCheck>;

/** https://github.com/grpc/grpc/blob/master/doc/health-checking.md */
export const grpc: CheckKind<typeof GrpcCheck> = {
  type: "grpc",
  label: "gRPC",
  purpose: "The health of a gRPC service",
  icon: "calls",
  schema: GrpcCheck,
  minIntervalSecs: 10,
  defaultIntervalSecs: 60,
  rules(spec) {
    const { metadata = {} } = spec;
    checkAll(
      () => refuseInvisible(spec.host, "INVALID_TCP_HOST", "/host"),
      () => hostOrThrow(spec.host),
      () => ipVersionRule(hostOrThrow(spec.host), spec.ip_version),
      () => refuseInvisible(spec.service, "INVALID_BODY", "/service"),
      () => refuseInvisible(spec.server_name ?? "", "INVALID_TLS_CERT_PARAMS", "/server_name"),
      () => serverName(spec),
      () => headersRule(metadata, "metadata"),
      rule(
        // https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md: reserved for gRPC itself.
        !Object.keys(metadata).some((name) => /^(?:grpc-.*|content-type|te|user-agent|host)$/i.test(name)),
        "INVALID_HTTP_HEADER",
        "Content-Type, TE, User-Agent, Host and names that begin with grpc- are written by the agent.",
        "/metadata",
      ),
      () => thresholdRules(spec),
      () => certificatesRule(spec, spec.tls, "Set tls to true"),
      rule(
        spec.verify_tls || !spec.tls || !Object.keys(metadata).some(isSecretHeader),
        "INVALID_TLS_CRED_COMBO",
        `${credentialsUnverified} or remove the metadata.`,
        "/verify_tls",
      ),
    );
  },
  destination: (spec) => ({ host: hostOrThrow(spec.host), port: spec.port, pointer: "/host" }),
  subject: (spec) => (spec.server_name === null ? null : { name: serverName(spec), pointer: "/server_name" }),
  mapSecrets: (spec, change) =>
    spec.metadata === undefined ? spec : { ...spec, metadata: mapHeaderSecrets(spec.metadata, change, "metadata") },
  secretsGoTo: (spec) => ({
    origin: `${spec.tls ? "grpcs" : "grpc"}://${hostOrThrow(spec.host)}:${spec.port} ${serverName(spec)}`,
    verified: spec.verify_tls,
  }),
  shell: {
    subject: "<host:port>",
    read: readHostAndPort,
    options: {
      tls: { words: "connect without encryption" },
      metadata: { ...headersOption("metadata of the call; may be repeated"), name: "metadata" },
      verify_tls: { words: "accept any certificate" },
      degraded_above_ms: durationOption("degraded-above"),
    },
  },
  summary(spec) {
    const server = hostAndPort(spec.host, spec.port);
    return spec.service === "" ? server : `${server} ${spec.service}`;
  },
  searchText: (spec) => `${spec.host}\n${spec.service}`,
};
