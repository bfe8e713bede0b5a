import { exponentialMs } from "@statusmesh/shared/backoff";
import type { Log } from "../process/log.ts";

export type RedisClient = Awaited<ReturnType<typeof clientOf>>;

/** A connection to Redis that reconnects by itself. */
export interface Redis {
  readonly client: RedisClient;
  /** Closes it at once. */
  stop(): void;
}

/**
 * Most installations have no Redis, and the modules of its client are a fifth of those of a start. A bundle has the
 * default export of a CommonJS module only.
 */
const loadClient = async () => (await import("redis")).default;

const connectMs = 2_000;
const slowestRetryMs = 2_000;
const silentMs = 5_000;

// With the offline queue a command would wait for a server that is down, instead of failing.
const clientOf = async (url: string) =>
  (await loadClient()).createClient({
    url,
    disableOfflineQueue: true,
    // Without a reply to a ping for silentMs the client closes the connection, which is logged as away.
    pingInterval: 2_000,
    socket: {
      connectTimeout: connectMs,
      socketTimeout: silentMs,
      reconnectStrategy: (retries: number) => exponentialMs(retries, 50, slowestRetryMs),
    },
  });

/**
 * Starts to connect and does not wait for the server. A command fails while the server is away. Each change is logged
 * once.
 */
export async function openRedis(url: string, log: Log): Promise<Redis> {
  const client = await clientOf(url);
  let state: "unknown" | "ready" | "away" = "unknown";
  client.on("ready", () => {
    if (state !== "ready") log.info({}, "Redis answers");
    state = "ready";
  });
  // Without a listener the client's errors would end the process.
  client.on("error", (error: Error & { code?: string }) => {
    if (state !== "away")
      log.warn(
        { reason: error.code ?? error.message },
        "Redis is away: rate limits are counted in this process until it is back",
      );
    state = "away";
  });
  // It rejects only when stopped before the first connection; every other failure is an error event and a retry.
  client.connect().catch(() => {});
  return { client, stop: () => void (client.isOpen && client.destroy()) };
}

/** Connects, sends one PING and disconnects. Throws the client's error. */
export async function pingRedis(url: string): Promise<void> {
  const client = (await loadClient()).createClient({
    url,
    disableOfflineQueue: true,
    socket: { connectTimeout: connectMs, socketTimeout: connectMs, reconnectStrategy: false },
  });
  client.on("error", () => {});
  try {
    await client.connect();
    await client.ping();
  } finally {
    if (client.isOpen) client.destroy();
  }
}
