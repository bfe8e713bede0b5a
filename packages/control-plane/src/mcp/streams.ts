import { PassThrough } from "node:stream";
import type { System } from "../context.ts";
import type { Hub } from "../db/notify.ts";
import { selectLive } from "./session-queries.ts";

/** Interval of comments on an idle stream: shorter than the idle timeouts of servers and proxies. */
export const commentMs = 15_000;
const comment = ": keepalive\n\n";

/** Event streams of this process (GET /mcp). The server has no messages for them; a stream ends with its session. */
export interface Streams {
  open(sessionId: string): PassThrough;
}

/** One timer for all streams, and one query per interval: a stream holds no connection of the database. */
export function openStreams({ sql, clock, log }: System, hub: Hub, draining: AbortSignal): Streams {
  const streams = new Map<string, Set<PassThrough>>();

  const close = (sessionId: string): void => {
    for (const stream of streams.get(sessionId) ?? []) stream.end();
  };
  const closeEnded = async (): Promise<void> => {
    const ids = [...streams.keys()];
    if (ids.length === 0) return;
    const live = new Set(await selectLive(sql, ids, new Date(clock.now())));
    for (const id of ids) if (!live.has(id)) close(id);
  };
  const check = (): void =>
    void closeEnded().catch((error: unknown) =>
      log.debug({ reason: String(error) }, "MCP sessions could not be checked"),
    );
  const timer = setInterval(() => {
    for (const set of streams.values()) for (const stream of set) stream.write(comment);
    check();
  }, commentMs).unref();
  // An empty payload: a notification may have been missed.
  hub.on("sm_mcp", (payload) => (payload === "" ? check() : close(payload)));
  draining.addEventListener("abort", () => {
    clearInterval(timer);
    for (const id of streams.keys()) close(id);
  });

  return {
    open(sessionId) {
      const stream = new PassThrough();
      const set = streams.get(sessionId) ?? new Set();
      streams.set(sessionId, set.add(stream));
      stream.once("close", () => {
        set.delete(stream);
        if (set.size === 0 && streams.get(sessionId) === set) streams.delete(sessionId);
      });
      // Sends the headers.
      stream.write(": open\n\n");
      return stream;
    },
  };
}
