import { createHash } from "node:crypto";
import { AppError } from "@statusmesh/shared/errors";
import { isId } from "@statusmesh/shared/ids";
import type { AddressKind } from "./schema.ts";

/** How an address of a product is written, and an example for the error. */
const forms: Readonly<Record<AddressKind, { fits(value: string): boolean; like: string }>> = {
  healthchecks: { fits: isUuid, like: "the UUID of its ping URL" },
  healthchecks_slug: {
    fits: (value) => /^[\w-]{8,100}\/[a-z0-9_-]{1,100}$/.test(value),
    like: "the ping key and the slug with a slash between them",
  },
  kuma: { fits: (value) => /^[\w-]{8,100}$/.test(value), like: "the token of its push URL, at least 8 characters" },
  better_stack: {
    fits: (value) => /^[\w-]{8,100}$/.test(value),
    like: "the token of its heartbeat URL, at least 8 characters",
  },
  gatus: {
    fits: (value) => /^[^:/\s]{1,150}:\S{8,100}$/.test(value),
    like: "the key of the endpoint and its token with a colon between them",
  },
};

function isUuid(value: string): boolean {
  return isId(value) || /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(value);
}

/** Stored lookup key of an address: SHA-256 in hex. */
export const hashOf = (kind: AddressKind | "own", value: string): string =>
  createHash("sha256")
    .update(`${kind}:${kind === "healthchecks" ? value.toLowerCase() : value}`)
    .digest("hex");

/** Throws INVALID_HEARTBEAT for a value that no job of the product could use. */
export function addressRule(kind: AddressKind, value: string, field: string): void {
  if (forms[kind].fits(value)) return;
  throw new AppError("INVALID_HEARTBEAT", `This is no address of ${kind}. Write ${forms[kind].like}.`, { field });
}

export const hintOf = (value: string): string => value.slice(-4);

/** What a request says, by the product whose address it uses. */
export interface PingRequest {
  readonly address: AddressKind | "own";
  readonly value: string;
  readonly kind: "success" | "start" | "fail" | "log";
  readonly exitCode: number | null;
  readonly runId: string | null;
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
    read: ({ query }) => said((query.get("status") ?? "up") === "up" ? "success" : "fail"),
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
          ? said(query.get("success") === "true" ? "success" : "fail")
          : { status: 400, reason: "success must be true or false" },
  },
];

type Said = Pick<PingRequest, "kind" | "exitCode" | "runId">;

const said = (kind: Said["kind"], exitCode: number | null = null, runId: string | null = null): Said => ({
  kind,
  exitCode,
  runId,
});

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
    const value = decoded(groups["value"]!);
    const bearer = /^Bearer (\S+)$/i.exec(asked.authorization)?.[1] ?? "";
    return { address, value: address === "gatus" ? `${value}:${bearer}` : value, ...result };
  }
  return unknown;
}

function decoded(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}
