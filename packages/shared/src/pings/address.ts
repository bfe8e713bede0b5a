import { createHash } from "node:crypto";
import { isId } from "../ids.ts";
import { dayMs, hourMs, minuteMs, secondMs } from "../time.ts";
import { percentDecoded } from "../url.ts";

/*
 * Requests of jobs that report to heartbeat monitors, by the product whose addresses they use. Control plane and agents
 * take them.
 */

/** Products whose addresses jobs may go on using. */
export const addressKinds = ["healthchecks", "healthchecks_slug", "kuma", "better_stack", "gatus"] as const;
export type AddressKind = (typeof addressKinds)[number];

/** What a job says with a ping. */
export const pingKinds = ["success", "start", "fail", "log"] as const;
export type PingKind = (typeof pingKinds)[number];

const isUuid = (value: string): boolean => isId(value) || /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(value);

const forms: Readonly<Record<AddressKind | "own", (value: string) => boolean>> = {
  own: (value) => /^[\w-]{43}$/.test(value),
  healthchecks: isUuid,
  healthchecks_slug: (value) => /^[\w-]{8,100}\/[a-z0-9_-]{1,100}$/.test(value),
  kuma: (value) => /^[\w-]{8,100}$/.test(value),
  better_stack: (value) => /^[\w-]{8,100}$/.test(value),
  gatus: (value) => /^[^:/\s]{1,150}:\S{8,100}$/.test(value),
};

/** True for a value that an address of this kind can have. */
export const isAddress = (kind: AddressKind | "own", value: string): boolean => forms[kind](value);

const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");

/** What an agent stores and sends in place of an address: SHA-256 in hex. Only who knows the address can make it. */
export const digestOf = (kind: AddressKind | "own", value: string): string =>
  sha256(`${kind}:${kind === "healthchecks" ? value.toLowerCase() : value}`);

/** The key of an address in the database, SHA-256 in hex: who reads it cannot report in the name of an agent. */
export const keyOf = (digest: string): string => sha256(digest);

/** What a request says, by the product whose address it uses. */
export interface PingRequest {
  readonly address: AddressKind | "own";
  readonly value: string;
  readonly kind: PingKind;
  readonly exitCode: number | null;
  readonly runId: string | null;
  /** What the job wrote, where the product has it in the query: `msg` of Uptime Kuma, `error` of Gatus. */
  readonly message: string | null;
  /** How long the job took by its own account, ms: `ping` of Uptime Kuma, `duration` of Gatus. */
  readonly durationMs: number | null;
  /** The monitor may be created, where its ping key allows that: `create=1` of healthchecks. */
  readonly mayCreate: boolean;
}

/** A request at the path of a ping that is none, with the status and the reason of the reply. */
export interface PingRefusal {
  readonly status: 400 | 404 | 405;
  readonly reason: string;
}

interface Asked {
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  readonly query: URLSearchParams;
  /** Authorization header. */
  readonly authorization: string;
}

const unknown: PingRefusal = { status: 404, reason: "not found" };

const uuid = "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}";
/** Forms of the paths. A suffix says what happened; healthchecks knows two ways to name the job. */
const paths: readonly {
  address: PingRequest["address"];
  path: RegExp;
  read(asked: Asked, suffix: string): Said | PingRefusal;
}[] = [
  { address: "own", path: /^\/hb\/(?<value>[^/]+)(?:\/(?<suffix>[^/]+))?$/, read: bySuffix },
  {
    address: "healthchecks",
    path: new RegExp(`^/ping/(?<value>${uuid})(?:/(?<suffix>[^/]+))?$`),
    read: bySuffix,
  },
  { address: "healthchecks_slug", path: /^\/ping\/(?<value>[^/]+\/[^/]+)(?:\/(?<suffix>[^/]+))?$/, read: bySuffix },
  {
    address: "kuma",
    path: /^\/api\/push\/(?<value>[^/]+)$/,
    // Its jobs send `status=up` or leave it out; anything else is a failure there too.
    read: ({ query }) => ({
      ...outcome((query.get("status") ?? "up") === "up", query.get("msg")),
      durationMs: wholeMs(/^\d{1,12}(?:\.\d+)?$/.test(query.get("ping") ?? "") ? Number(query.get("ping")) : null),
    }),
  },
  {
    address: "better_stack",
    path: /^\/api\/v1\/heartbeat\/(?<value>[^/]+)(?:\/(?<suffix>[^/]+))?$/,
    read: (asked, suffix) => (/^(?:|fail|\d+)$/.test(suffix) ? bySuffix(asked, suffix) : unknown),
  },
  {
    address: "gatus",
    path: /^\/api\/v1\/endpoints\/(?<value>[^/]+)\/external$/,
    read: ({ method, query }) =>
      method !== "POST"
        ? { status: 405, reason: "POST only" }
        : /^(?:true|false)$/.test(query.get("success") ?? "")
          ? {
              ...outcome(query.get("success") === "true", query.get("error")),
              durationMs: wholeMs(goDuration(query.get("duration") ?? "")),
            }
          : { status: 400, reason: "success must be true or false" },
  },
];

type Said = Pick<PingRequest, "kind" | "exitCode" | "runId" | "message" | "durationMs">;

const said = (kind: Said["kind"], exitCode: number | null, runId: string | null): Said => ({
  kind,
  exitCode,
  runId,
  message: null,
  durationMs: null,
});

const outcome = (isSuccess: boolean, reason: string | null): Said => ({
  ...said(isSuccess ? "success" : "fail", null, null),
  // Uptime Kuma's own command sends msg=OK with each success.
  message: reason === "" || (isSuccess && reason === "OK") ? null : reason,
});

/** A run takes a day at most. */
const wholeMs = (ms: number | null): number | null => (ms === null || ms > dayMs ? null : Math.round(ms));

const goUnits: Readonly<Record<string, number>> = {
  h: hourMs,
  m: minuteMs,
  s: secondMs,
  ms: 1,
  us: 1e-3,
  µs: 1e-3,
  ns: 1e-6,
};

/** A duration as Go writes it (`1m30.5s`), ms; null for another text. */
function goDuration(text: string): number | null {
  if (!/^(?:\d{1,12}(?:\.\d{0,9})?(?:h|ms|m|s|us|µs|ns)){1,8}$/.test(text)) return null;
  const parts = [...text.matchAll(/([\d.]+)([a-zµ]+)/g)];
  return parts.reduce((sum, [, amount, unit]) => sum + Number(amount) * goUnits[unit!]!, 0);
}

function bySuffix({ query }: Asked, suffix: string): Said | PingRefusal {
  const rid = query.get("rid");
  if (rid !== null && !isUuid(rid)) return { status: 400, reason: "rid must be a UUID" };
  const runId = rid?.toLowerCase() ?? null;
  if (suffix === "" || suffix === "success") return said("success", null, runId);
  if (suffix === "start" || suffix === "fail" || suffix === "log") return said(suffix, null, runId);
  if (!/^\d{1,9}$/.test(suffix)) return unknown;
  const code = Number(suffix);
  if (code > 255) return { status: 400, reason: "an exit code is 0 to 255" };
  return said(code === 0 ? "success" : "fail", code, runId);
}

/** True for a path below those of pings: its segments may be secrets. */
export const isPingPath = (path: string): boolean =>
  /^\/(?:hb|ping|api\/push|api\/v1\/heartbeat)\/|^\/api\/v1\/endpoints\/[^/]+\/external\/?$/.test(path);

/** What a request below the paths of pings says. */
export function readPing(asked: Asked): PingRequest | PingRefusal {
  for (const { address, path, read } of paths) {
    const groups = path.exec(asked.path.replace(/\/$/, ""))?.groups;
    if (groups === undefined) continue;
    const result = read(asked, groups["suffix"] ?? "");
    if ("status" in result) return result;
    const value = percentDecoded(groups["value"]!);
    const mayCreate = address === "healthchecks_slug" && asked.query.get("create") === "1";
    const bearer = /^Bearer (\S+)$/i.exec(asked.authorization)?.[1] ?? "";
    return { address, value: address === "gatus" ? `${value}:${bearer}` : value, ...result, mayCreate };
  }
  return unknown;
}
