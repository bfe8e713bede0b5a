import Type, { type Static } from "typebox";
import { type CheckKind, hostOrThrow, refuseUnseen, timeout } from "./kind.ts";
import { hostAndPort } from "./shell.ts";

export const TcpCheck = Type.Object(
  {
    type: Type.Literal("tcp"),
    host: Type.String({
      minLength: 1,
      maxLength: 253,
      errorCode: "INVALID_TCP_HOST",
      description: "Host name or IP address",
      examples: ["db.example.org"],
      form: { hint: "A host name or an IP address." },
    }),
    port: Type.Integer({
      minimum: 1,
      maximum: 65_535,
      errorCode: "INVALID_TCP_PORT",
      description: "TCP port",
      examples: [5432],
      form: { beside: true },
    }),
    timeout: timeout({ section: "Advanced TCP options", hint: "Includes name resolution and connect." }),
  },
  { additionalProperties: false, title: "TcpCheck", description: "Connects to a port" },
);
export type TcpCheck = Static<typeof TcpCheck>;

export const tcp: CheckKind<typeof TcpCheck> = {
  type: "tcp",
  label: "TCP",
  purpose: "A database, a mail server",
  icon: "plug",
  schema: TcpCheck,
  minIntervalSecs: 10,
  defaultIntervalSecs: 60,
  rules(spec) {
    refuseUnseen(spec.host, "INVALID_TCP_HOST", "/host");
    hostOrThrow(spec.host, "/host");
  },
  destination: (spec) => ({ host: hostOrThrow(spec.host, "/host"), port: spec.port, pointer: "/host" }),
  mapSecrets: (spec) => spec,
  secretsGoTo: () => null,
  shell: { subject: "<host:port>", read: hostAndPort },
  summary: (spec) => (spec.host.includes(":") ? `[${spec.host}]:${spec.port}` : `${spec.host}:${spec.port}`),
  searchText: (spec) => spec.host,
};
