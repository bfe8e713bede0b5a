import Type, { type Static } from "typebox";
import { checkAll } from "../faults.ts";
import { hostAndPort } from "../url.ts";
import { type CheckKind, degradedAbove, ipVersion, ipVersionRule, thresholdRules, timeout, verifyTls } from "./kind.ts";
import { hostField, hostOrThrow, portField, refuseInvisible, serverName, serverNameField } from "./host.ts";
import { durationOption, readHostAndPort } from "./shell.ts";
import { Shape } from "../shapes.ts";

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
  verify_tls: verifyTls(section),
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
    checkAll(
      () => refuseInvisible(spec.host, "INVALID_TCP_HOST", "/host"),
      () => hostOrThrow(spec.host),
      () => ipVersionRule(hostOrThrow(spec.host), spec.ip_version),
      () => refuseInvisible(spec.server_name ?? "", "INVALID_TLS_CERT_PARAMS", "/server_name"),
      () => serverName(spec),
      () => thresholdRules(spec),
    );
  },
  destination: (spec) => ({ host: hostOrThrow(spec.host), port: spec.port, pointer: "/host" }),
  subject: (spec) => (spec.server_name === null ? null : { name: serverName(spec), pointer: "/server_name" }),
  mapSecrets: (spec) => spec,
  secretsGoTo: () => null,
  shell: {
    subject: "<host:port>",
    read: readHostAndPort,
    options: {
      tls: { words: "connect without encryption" },
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
