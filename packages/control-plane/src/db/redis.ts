import { createClient } from "redis";
import type { Log } from "../log.ts";

export type RedisClient = ReturnType<typeof clientOf>;

/** A connection to Redis that comes back by itself. */
export interface Redis {
  readonly client: RedisClient;
  /** Ends it at once. */
  stop(): void;
}

const connectMs = 2_000;
const slowestRetryMs = 2_000;

// Without disableOfflineQueue a command would wait for a server that is down, instead of failing.
const clientOf = (url: string) =>
  createClient({
    url,
    disableOfflineQueue: true,
    pingInterval: 10_000,
    socket: {
      connectTimeout: connectMs,
      reconnectStrategy: (retries: number) => Math.min(50 * 2 ** Math.min(retries, 10), slowestRetryMs),
    },
  });

/** Starts to connect and returns at once: a command fails while the server is away. What happens to the connection is logged once per change. */
export function openRedis(url: string, log: Log): Redis {
  const client = clientOf(url);
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
  // It only fails when it is stopped before it ever succeeded; everything else is an error event and a next try.
  client.connect().catch(() => {});
  return { client, stop: () => void (client.isOpen && client.destroy()) };
}

/** Connects, asks once and leaves. Throws what went wrong. */
export async function pingRedis(url: string): Promise<void> {
  const client = createClient({
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
