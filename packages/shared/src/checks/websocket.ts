import Type, { type Static } from "typebox";
import { AppError } from "../errors.ts";
import { checkAll, rule } from "../schema/faults.ts";
import { portOf, urlProblem } from "../url.ts";
import { certificatesField, certificatesRule } from "./certificates.ts";
import { credentialsRule, headersRule, isSecretHeader, mapHeaderSecrets } from "./http-rules.ts";
import { canonicalHost, urlField } from "./host.ts";
import { headersOption } from "./http-shell.ts";
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
import { durationOption } from "./shell.ts";
import { Shape } from "../schema/shapes.ts";

/** Title of the collapsed part of the form. */
const section = "Advanced WebSocket options";

export const WebSocketCheck = Shape("WebSocketCheck", "Opens a WebSocket, and verifies a message", {
  type: Type.Literal("websocket"),
  url: urlField("ws or wss", "wss://live.example.org/socket"),
  send: nullableText(65_536, "Text message that is sent after the handshake", { section, control: "lines" }),
  expect: nullableText(
    1000,
    "Text that a message within the first MiB must contain",
    { section, label: "Response must contain", hint: "A message with this text. Empty: no message is expected." },
    "INVALID_EXPECTATION",
  ),
  headers: Type.Record(Type.String(), Type.String({ maxLength: 8192 }), {
    default: {},
    maxProperties: 50,
    description: "Sent with the handshake. Values read as ***, except those of headers that never authenticate",
    form: {
      section,
      placeholder: "Origin: https://shop.example.org",
      hint: "One per line, name and value. Values are encrypted.",
      maskedHint:
        "One per line. *** is a stored value: leave the list unchanged to keep it, or enter every value again.",
    },
  }),
  subprotocols: Type.Optional(
    Type.Array(
      // A token of RFC 9110 section 5.6.2.
      Type.String({
        pattern: "^[!#$%&'*+\\-.^_`|~0-9A-Za-z]{1,64}$",
        errorCode: "INVALID_HTTP_HEADER",
        expects:
          "Write a subprotocol as one word of 1 to 64 letters, digits and !#$%&'*+-.^_`|~, like graphql-transport-ws",
        description: "A token: letters, digits and !#$%&'*+-.^_`|~",
        examples: ["graphql-transport-ws"],
      }),
      {
        default: [],
        maxItems: 5,
        uniqueItems: true,
        errorCode: "INVALID_HTTP_HEADER",
        description: "Offered in this order (Sec-WebSocket-Protocol); the server must choose one of them",
        form: { section, control: "lines", placeholder: "graphql-transport-ws", hint: "One per line, at most 5." },
      },
    ),
  ),
  verify_tls: verifyTls(section, "false accepts any certificate; not together with a header that authenticates"),
  certificates: certificatesField(section),
  timeout: timeout({ section }),
  degraded_above_ms: degradedAbove({ section, beside: true }),
  ip_version: ipVersion(section),
});
export type WebSocketCheck = Static<typeof WebSocketCheck>;

function urlRule(text: string): URL {
  const refuse = (code: "INVALID_URL_SCHEME" | "INVALID_URL_FORMAT", message: string) =>
    new AppError(code, message, { field: "/url" });
  const scheme = /^([a-z][a-z\d+.-]*):/i.exec(text)?.[1]?.toLowerCase();
  if (scheme !== undefined && scheme !== "ws" && scheme !== "wss")
    throw refuse("INVALID_URL_SCHEME", `The scheme "${scheme}" is no WebSocket. Use ws or wss.`);
  const problem = urlProblem(text);
  if (problem !== null) throw refuse("INVALID_URL_FORMAT", problem);
  const url = new URL(text);
  if (url.port === "0") throw refuse("INVALID_URL_FORMAT", "Port 0 cannot be connected to. Use 1 to 65535.");
  if (url.hash !== "")
    throw refuse("INVALID_URL_FORMAT", "A WebSocket has no part after # (RFC 6455 section 3). Remove it.");
  credentialsRule(url);
  return url;
}

/** Host and port of the handshake; the host without brackets and final dot. */
export function placeOf(text: string): { secure: boolean; host: string; port: number } {
  const url = urlRule(text);
  return { secure: url.protocol === "wss:", host: canonicalHost(url.hostname), port: portOf(url) };
}

export const websocket: CheckKind<typeof WebSocketCheck> = {
  type: "websocket",
  label: "WebSocket",
  purpose: "A live connection",
  icon: "swap",
  schema: WebSocketCheck,
  minIntervalSecs: 10,
  defaultIntervalSecs: 60,
  rules(spec) {
    const isSecret = Object.keys(spec.headers).some(isSecretHeader);
    checkAll(
      () => urlRule(spec.url),
      () => ipVersionRule(placeOf(spec.url).host, spec.ip_version, "INVALID_URL_FORMAT"),
      () => headersRule(spec.headers),
      rule(
        !Object.keys(spec.headers).some((name) => /^(?:host|sec-websocket-.*)$/i.test(name)),
        "INVALID_HTTP_HEADER",
        "Host and Sec-WebSocket headers are written by the agent.",
        "/headers",
      ),
      () => thresholdRules(spec),
      () => certificatesRule(spec, /^wss:/i.test(spec.url), "Use wss"),
      rule(
        spec.verify_tls || !isSecret || !/^wss:/i.test(spec.url),
        "INVALID_TLS_CRED_COMBO",
        `${credentialsUnverified} or remove the headers.`,
        "/verify_tls",
      ),
    );
  },
  destination(spec) {
    const { host, port } = placeOf(spec.url);
    return { host, port, pointer: "/url" };
  },
  url: (spec) => new URL(spec.url),
  mapSecrets: (spec, change) => ({ ...spec, headers: mapHeaderSecrets(spec.headers, change) }),
  secretsGoTo(spec) {
    const { secure, host, port } = placeOf(spec.url);
    return { origin: `${secure ? "wss" : "ws"}://${host}:${port}`, verified: spec.verify_tls };
  },
  shell: {
    subject: "<url>",
    read: (subject) => ({ url: subject }),
    options: {
      headers: headersOption("header of the handshake; may be repeated"),
      subprotocols: {
        name: "subprotocol",
        words: "subprotocol to offer; may be repeated",
        repeated: true,
        read: (texts) => texts,
      },
      verify_tls: { words: "accept any certificate" },
      degraded_above_ms: durationOption("degraded-above"),
    },
  },
  summary: (spec) => spec.url,
  searchText: (spec) => spec.url,
};
