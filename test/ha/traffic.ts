import { connect } from "../harness/api.ts";
import type { Teardown } from "../harness/folder.ts";
import { codeOf, type Exchange } from "./recorder.ts";

export interface Traffic {
  readonly exchanges: readonly Exchange[];
  /** Ids of targets whose creation was answered 201. */
  readonly written: readonly string[];
  /** Returns when a write that began after `at` succeeded for the first time, `performance.now()`; null before. */
  backAfter(at: number): number | null;
  stop(): Promise<void>;
}

const readEveryMs = 100;
const writeEveryMs = 250;
const pageEveryMs = 500;
/** `what` of the requests for a status page. */
export const pageRequest = "GET /api/public/v1/status";

/** Sends reads, writes and requests for a status page at a fixed rate, whatever becomes of those before. */
export function startTraffic(t: Teardown, url: string, token: string): Traffic {
  const api = connect(t, url, token);
  const visitor = connect(t, url, null);
  const exchanges: Exchange[] = [];
  const written: string[] = [];
  const running = new Set<Promise<void>>();

  const every = (ms: number, method: string, path: string, json?: unknown): NodeJS.Timeout =>
    setInterval(() => {
      const client = path.startsWith("/api/v1") ? api : visitor;
      const at = performance.now();
      const done = client
        .send(method, path, json === undefined ? {} : { json })
        .catch(() => ({ status: 0, text: "", body: null }))
        .then(({ status, text, body }) => {
          const took = performance.now() - at;
          exchanges.push({ at, ms: took, what: `${method} ${path}`, status, code: status < 400 ? "" : codeOf(text) });
          if (status === 201) written.push((body as { id: string }).id);
        });
      running.add(done);
      void done.finally(() => running.delete(done));
    }, ms);
  const idle = { name: "Written", enabled: false, check: { type: "tcp", host: "127.0.0.1", port: 9 } };
  const timers = [
    every(readEveryMs, "GET", "/api/v1/targets?limit=5"),
    every(writeEveryMs, "POST", "/api/v1/targets", idle),
    every(pageEveryMs, "GET", "/api/public/v1/status"),
  ];
  const stop = async (): Promise<void> => {
    for (const timer of timers) clearInterval(timer);
    await Promise.all(running);
  };
  t.teardown(stop);
  return {
    exchanges,
    written,
    backAfter(at) {
      const first = exchanges.find((it) => it.at > at && it.status === 201);
      return first === undefined ? null : first.at + first.ms;
    },
    stop,
  };
}
