import type { Json } from "@statusmesh/shared/json";
import { content, fixedHeader, operationIdOf, sharedHeader, textParameter } from "./parts.ts";

/*
 * Pings of heartbeat monitors in the document. They are no declared routes: jobs send them without signing in, and
 * replies have the words of the products whose addresses they use instead of the envelope of the API.
 */

const headers: Json = {
  "X-Request-Id": sharedHeader("RequestId"),
  "Cache-Control": fixedHeader("Never kept", "no-store"),
  "Access-Control-Allow-Origin": fixedHeader("Pages of every origin may send pings", "*"),
  "Ping-Body-Limit": fixedHeader("Bytes of a body that are kept", "10000"),
};

/** A reply in plain text, or in JSON where `json` has its shape. */
function reply(status: number, description: string, text: string, json?: { ok: boolean; msg?: string }): Json {
  const schema =
    json === undefined
      ? { type: "string" }
      : {
          type: "object",
          properties: {
            ok: { type: "boolean", const: json.ok },
            ...(json.msg === undefined ? {} : { msg: { type: "string", description: "What is wrong" } }),
          },
          required: Object.keys(json),
          additionalProperties: false,
        };
  return {
    description,
    headers: { ...headers, ...(status === 429 ? { "Retry-After": sharedHeader("RetryAfter") } : {}) },
    content: content(json === undefined ? "text/plain" : "application/json", schema, json ?? text),
  };
}

function replies(isJson: boolean): Json {
  const refusal = (status: number, description: string, text: string): Json =>
    reply(status, description, text, isJson ? { ok: false, msg: text } : undefined);
  return {
    200: reply(200, "The ping is stored", "OK", isJson ? { ok: true } : undefined),
    400: refusal(400, "The exit code, `rid` or `success` cannot be read", "an exit code is 0 to 255"),
    404: refusal(404, "The address or the event is unknown", "not found"),
    405: refusal(405, "The monitor takes POST only", "POST only"),
    429: refusal(429, "More than 5 pings a second: the job counts as alive, and no row is kept", "too many pings"),
  };
}

const creations: Json = {
  201: reply(201, "The monitor is created, and the ping is stored", "Created"),
  403: reply(403, "The quota of the organisation, or 100 monitors of the ping key a day", "limit"),
};

const token = textParameter("path", "token", "Token of the address: a secret", "a0Zk3…");
const event = textParameter(
  "path",
  "event",
  "`success`, `start`, `fail`, `log`, or an exit code from 0 to 255",
  "start",
);
const rid = textParameter(
  "query",
  "rid",
  "UUID that pairs the start and the end of a run",
  "6e1a4b7c-2f1d-4f3e-9a55-0c6f6a2b7d10",
);

const create = textParameter(
  "query",
  "create",
  "`1` creates the monitor of a slug where `heartbeats.auto_create` names the ping key",
  "1",
);

interface Ping {
  path: string;
  summary: string;
  description: string;
  parameters: Json[];
  methods?: readonly ("get" | "post")[];
  isJson?: true;
  mayCreate?: true;
}

const pings: readonly Ping[] = [
  {
    path: "/hb/{token}",
    summary: "A job has succeeded",
    description: "The ping URL of a heartbeat monitor. HEAD counts like GET. The body of a POST is kept with the ping.",
    parameters: [token, rid],
  },
  {
    path: "/hb/{token}/{event}",
    summary: "A run has started, ended or failed",
    description: "An exit code above 0 is a failure. `log` is a message without a result.",
    parameters: [token, event, rid],
  },
  {
    path: "/ping/{uuid}",
    summary: "A job with an address of healthchecks has succeeded",
    description: "For addresses in `heartbeat_addresses` of a monitor.",
    parameters: [textParameter("path", "uuid", "UUID of the check there", "0b0b7e9c-5d1f-4f6e-8c3a-1f2e3d4c5b6a"), rid],
  },
  {
    path: "/ping/{key}/{name}",
    summary: "An event of healthchecks",
    description: "Either the UUID of a check and an event, or a ping key and a slug, which `/{event}` may follow.",
    parameters: [
      textParameter("path", "key", "UUID, or ping key", "pingkey-123"),
      textParameter("path", "name", "Event, or slug", "db-backup"),
      rid,
      create,
    ],
    mayCreate: true,
  },
  {
    path: "/api/push/{token}",
    summary: "A push of Uptime Kuma",
    description: "Without `status`, or with `up`, the job has succeeded; anything else is a failure.",
    parameters: [
      token,
      textParameter("query", "status", "`up` or `down`", "up"),
      textParameter("query", "msg", "Reason of a failure, kept with the ping", "disk full"),
      textParameter("query", "ping", "Ignored", "12"),
    ],
    isJson: true,
  },
  {
    path: "/api/v1/heartbeat/{token}",
    summary: "A heartbeat of Better Stack",
    description: "For addresses in `heartbeat_addresses` of a monitor.",
    parameters: [token],
  },
  {
    path: "/api/v1/heartbeat/{token}/{event}",
    summary: "A failure or an exit code of Better Stack",
    description: "`fail`, or an exit code from 0 to 255.",
    parameters: [token, textParameter("path", "event", "`fail` or an exit code", "fail")],
  },
  {
    path: "/api/v1/endpoints/{key}/external",
    summary: "A result of an external endpoint of Gatus",
    description: "With the token of the endpoint as bearer token.",
    parameters: [
      textParameter("path", "key", "Key of the endpoint", "core_backup"),
      textParameter("query", "success", "`true` or `false`", "true"),
      textParameter("query", "error", "Reason of a failure, kept with the ping", "timeout"),
      textParameter("query", "duration", "Ignored", "10s"),
    ],
    methods: ["post"],
  },
];

/** Operations of pings by path. */
export function pingOperations(): Record<string, Json> {
  return Object.fromEntries(
    pings.map(
      ({ path, summary, description, parameters, methods = ["get", "post"], isJson = false, mayCreate = false }) => [
        path,
        Object.fromEntries(
          methods.map((method) => [
            method,
            {
              operationId: operationIdOf(method, path),
              tags: ["Heartbeats"],
              summary,
              description,
              parameters,
              responses: { ...replies(isJson), ...(mayCreate ? creations : {}) },
              security: [],
            },
          ]),
        ),
      ],
    ),
  );
}
