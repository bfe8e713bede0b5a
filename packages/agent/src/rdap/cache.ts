import { mkdirSync, readFileSync, statSync } from "node:fs";
import { open, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import Type, { type Static } from "typebox";
import { Compile } from "typebox/compile";
import { codeOf, messageOf } from "@statusmesh/shared/thrown";
import type { Clock } from "../clock.ts";
import type { Log } from "../telemetry/log.ts";
import type { Registration } from "./query.ts";

/** Cached data on domains and registries, persistent where a folder is given. */
export interface RdapCache {
  registration(domain: string): Registration | null;
  remember(domain: string, registration: Registration): void;
  /** The list fetched from this URL; null for none or one of another URL. */
  registries(url: string): SavedRegistries | null;
  keepRegistries(list: SavedRegistries): void;
  /** Resolves when everything is on disk, if there is a folder. */
  close(): Promise<void>;
}

const UnixMs = Type.Integer({ minimum: 0, maximum: 8_640_000_000_000_000 });
const Registries = Type.Object({
  url: Type.String(),
  fetchedAt: UnixMs,
  servers: Type.Record(Type.String(), Type.Array(Type.String())),
});
export type SavedRegistries = Static<typeof Registries>;

const fileVersion = 1;
const CacheFile = Type.Object({
  version: Type.Literal(fileVersion),
  registries: Type.Union([Registries, Type.Null()]),
  /** Domain, expiry, lookup (both Unix ms), registrar; oldest lookup first. */
  domains: Type.Array(
    Type.Tuple([
      Type.String({ maxLength: 253 }),
      UnixMs,
      UnixMs,
      Type.Union([Type.String({ maxLength: 200 }), Type.Null()]),
    ]),
  ),
});
const validFile = Compile(CacheFile);

/** Maximum number of domains: more than an agent looks up in a week at the allowed pace; the oldest is evicted. */
const maxDomains = 10_000;
/** Maximum size of the file, bytes: four times the domains and a list of registries. */
const maxFileBytes = 16_000_000;
/** Debounce of writes, ms. */
const writeDelayMs = 5_000;

/**
 * The cache in `folder` (in memory for null), in one small file that is replaced atomically. A damaged, oversized or
 * foreign file is ignored and replaced by the next write; an unusable folder costs a log line.
 */
export function rdapCache(folder: string | null, options: { clock: Clock; log: Log; maxDomains?: number }): RdapCache {
  const { clock, log } = options;
  const most = options.maxDomains ?? maxDomains;
  const file = folder === null ? null : join(folder, "rdap.json");
  const { registries: read, domains } = load(file, log);
  let registries = read;
  let cancel: (() => void) | null = null;
  let writing = Promise.resolve();

  const write = (): void => {
    cancel = null;
    writing = writing.then(async () => {
      const rows = [...domains].map(
        ([domain, { expiresAt, lookedUpAt, registrar }]) => [domain, expiresAt, lookedUpAt, registrar] as const,
      );
      try {
        await replace(file!, JSON.stringify({ version: fileVersion, registries, domains: rows }));
      } catch (error) {
        log("warn", "the cache of domains could not be written to disk; it is kept in memory", {
          file,
          reason: messageOf(error),
        });
      }
    });
  };
  const changed = (): void => {
    if (file !== null) cancel ??= clock.after(writeDelayMs, write);
  };
  return {
    registration: (domain) => domains.get(domain) ?? null,
    remember(domain, registration) {
      domains.delete(domain);
      domains.set(domain, registration);
      for (const oldest of domains.keys()) {
        if (domains.size <= most) break;
        domains.delete(oldest);
      }
      changed();
    },
    registries: (url) => (registries?.url === url ? registries : null),
    keepRegistries(list) {
      registries = list;
      changed();
    },
    async close() {
      if (cancel !== null) {
        cancel();
        write();
      }
      await writing;
    },
  };
}

interface Loaded {
  registries: SavedRegistries | null;
  domains: Map<string, Registration>;
}

function load(file: string | null, log: Log): Loaded {
  const nothing: Loaded = { registries: null, domains: new Map() };
  if (file === null) return nothing;
  try {
    mkdirSync(join(file, ".."), { recursive: true, mode: 0o700 });
    if (statSync(file).size > maxFileBytes) throw new Error(`it is larger than ${maxFileBytes / 1_000_000} MB`);
    const content: unknown = JSON.parse(readFileSync(file, "utf8"));
    if (!validFile.Check(content)) throw new Error("it is not of this version");
    const domains = content.domains.map(
      ([domain, expiresAt, lookedUpAt, registrar]) => [domain, { expiresAt, lookedUpAt, registrar }] as const,
    );
    return { registries: content.registries, domains: new Map(domains) };
  } catch (error) {
    if (codeOf(error) === "ENOENT") return nothing;
    log("warn", "the cache of domains cannot be read; starting without it", {
      file,
      reason: messageOf(error),
    });
    return nothing;
  }
}

/** Atomic: after a crash the old or the new file exists. */
async function replace(file: string, text: string): Promise<void> {
  const temporary = `${file}.${process.pid}.tmp`;
  const handle = await open(temporary, "w", 0o600);
  try {
    // writeFile continues after a short write, and fails on a full disk.
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
  try {
    await rename(temporary, file);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}
