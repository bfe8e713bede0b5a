import Type, { type Static } from "typebox";
import { AppError } from "../errors.ts";
import { checkAll, rule } from "../schema/faults.ts";
import { hostAndPort } from "../url.ts";
import { certificatesField, certificatesRule } from "./certificates.ts";
import {
  type CheckKind,
  credentialsUnverified,
  degradedAbove,
  ipVersion,
  ipVersionRule,
  nullableText,
  thresholdRules,
  timeout,
  verifyTls,
} from "./kind.ts";
import { hostField, hostOrThrow, portField, refuseInvisible, serverName, serverNameField } from "./host.ts";
import { durationOption, readHostAndPort } from "./shell.ts";
import { startTlsNames, startTlsOptions, type StartTlsProtocol } from "./starttls.ts";
import { Shape } from "../schema/shapes.ts";

/** Title of the collapsed part of the form. */
const section = "Advanced TCP options";
const startTlsModes = startTlsNames.map((name) => `starttls_${name}` as const);
/** Bytes of `send` without its escapes. */
const maxSent = 4096;

// Fields after the port are optional for what makes a check by hand: validation fills in their defaults.
export const TcpCheck = Shape("TcpCheck", "Connects to a port", {
  type: Type.Literal("tcp"),
  host: hostField("db.example.org"),
  port: portField({ examples: [5432] }),
  tls: Type.Optional(
    Type.Enum(["none", "tls", ...startTlsModes], {
      default: "none",
      description: "Encryption: none, from the first byte, or after STARTTLS of a protocol",
      form: {
        section,
        label: "Encryption",
        options: { none: "None", tls: "TLS", ...startTlsOptions((name) => `starttls_${name}`) },
      },
    }),
  ),
  server_name: Type.Optional(
    serverNameField("Server name (SNI); null: the host", {
      section,
      hint: "With encryption. Empty uses the host.",
      beside: true,
    }),
  ),
  verify_tls: Type.Optional(verifyTls(section)),
  certificates: certificatesField(section),
  greeting: Type.Optional(
    nullableText(
      200,
      "Text of the server's greeting, which the run waits for before it sends anything. With STARTTLS it is that " +
        "inside TLS. Null: send does not wait",
      {
        section,
        label: "Greeting",
        placeholder: "220 ",
        hint: "For servers that speak first: 220 on ports 21, 25 and 587, +OK on 110, * OK on 143.",
      },
      "INVALID_EXPECTATION",
    ),
  ),
  send: Type.Optional(
    nullableText(
      16_384,
      "Sent after the connection, with the escapes \\\\ \\r \\n \\t \\xHH; at most 4 KiB. Reads as ***",
      {
        section,
        control: "text",
        hint: "Encrypted. \\r \\n \\t \\xHH stand for bytes.",
        placeholder: "PING\\r\\n",
      },
      "INVALID_EXPECTATION",
    ),
  ),
  expect: Type.Optional(
    nullableText(
      1000,
      "Text that the first 4 KiB which come back, after the greeting, must contain",
      {
        section,
        label: "Response must contain",
        hint: "In the first 4 KiB. Empty: no reply is expected.",
        beside: true,
      },
      "INVALID_EXPECTATION",
    ),
  ),
  timeout: timeout({ section, hint: "Includes name resolution and connect." }),
  degraded_above_ms: Type.Optional(degradedAbove({ section, beside: true })),
  ip_version: ipVersion(section),
});
export type TcpCheck = Static<typeof TcpCheck>;

/** What servers that speak first begin with, by their usual port. */
export const greetings: ReadonlyMap<number, string> = new Map([
  [21, "220"],
  [25, "220"],
  [110, "+OK"],
  [143, "* OK"],
  [587, "220"],
]);

/** The protocol of `starttls_<protocol>`; null for another encryption. */
export function startTlsOf(tls: NonNullable<TcpCheck["tls"]>): StartTlsProtocol | null {
  return tls === "none" || tls === "tls" ? null : (tls.slice("starttls_".length) as StartTlsProtocol);
}

/** The bytes of `send`; empty for none. Throws INVALID_EXPECTATION for an unknown escape, or too many. */
export function sentBytes({ send = null }: Pick<TcpCheck, "send">): Buffer {
  const refuse = (message: string) => new AppError("INVALID_EXPECTATION", message, { field: "/send" });
  const named: Readonly<Record<string, number>> = { "\\": 0x5c, r: 13, n: 10, t: 9 };
  const parts = (send ?? "").split(/(\\x[\da-f]{2}|\\.?)/is).map((part, at) => {
    if (at % 2 === 0) return Buffer.from(part, "utf8");
    const byte = part.length === 4 ? Number.parseInt(part.slice(2), 16) : named[part.slice(1)];
    if (byte === undefined)
      throw refuse(`The escape ${part} is not known. Use \\\\ \\r \\n \\t or \\x and two hexadecimal digits.`);
    return Buffer.from([byte]);
  });
  const bytes = Buffer.concat(parts);
  if (bytes.length > maxSent) throw refuse(`send has ${bytes.length} bytes; at most ${maxSent} are sent.`);
  return bytes;
}

export const tcp: CheckKind<typeof TcpCheck> = {
  type: "tcp",
  label: "TCP",
  purpose: "A database, a mail server",
  icon: "plug",
  schema: TcpCheck,
  minIntervalSecs: 10,
  defaultIntervalSecs: 60,
  rules(spec) {
    checkAll(
      () => refuseInvisible(spec.host, "INVALID_TCP_HOST", "/host"),
      () => hostOrThrow(spec.host),
      () => ipVersionRule(hostOrThrow(spec.host), spec.ip_version),
      () => refuseInvisible(spec.server_name ?? "", "INVALID_TLS_CERT_PARAMS", "/server_name"),
      () => serverName(spec),
      () => sentBytes(spec),
      () => certificatesRule(spec, (spec.tls ?? "none") !== "none", "Set tls"),
      () => thresholdRules(spec),
      rule(
        spec.verify_tls !== false || spec.tls === "none" || (spec.send ?? null) === null,
        "INVALID_TLS_CRED_COMBO",
        `send holds a secret. ${credentialsUnverified} or remove send.`,
        "/verify_tls",
      ),
    );
  },
  destination: (spec) => ({ host: hostOrThrow(spec.host), port: spec.port, pointer: "/host" }),
  subject: (spec) => ((spec.server_name ?? null) === null ? null : { name: serverName(spec), pointer: "/server_name" }),
  mapSecrets: (spec, change) => ((spec.send ?? null) === null ? spec : { ...spec, send: change(spec.send!, "/send") }),
  secretsGoTo: (spec) => ({
    origin: `${spec.tls ?? "none"}://${hostOrThrow(spec.host)}:${spec.port} ${serverName(spec)}`,
    verified: spec.verify_tls !== false,
  }),
  shell: {
    subject: "<host:port>",
    read: readHostAndPort,
    options: {
      verify_tls: { words: "accept any certificate" },
      send: { words: "sent after the connection", secret: "always" },
      degraded_above_ms: durationOption("degraded-above"),
    },
  },
  summary: (spec) => hostAndPort(spec.host, spec.port),
  searchText: (spec) => spec.host,
};
