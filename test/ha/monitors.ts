import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "../harness/api.ts";
import type { Teardown } from "../harness/folder.ts";
import { type HttpTarget, startHttpTarget } from "../harness/servers.ts";
import type { Sink } from "../harness/sink.ts";

/** Interval of every monitor. */
export const intervalMs = 10_000;
/** Long enough for two confirmations in both regions, also when the database is away for half of it. */
const outageMs = 45_000;

export interface Monitors {
  readonly ids: readonly string[];
  /** Monitors whose target was down for {@link outageMs} and is up again. */
  readonly failed: readonly string[];
  /** Takes the targets down one after the other, each once, spread over `ms`. */
  runOutages(ms: number): Promise<void>;
}

/** Makes `count` monitors of http targets in both regions, which notify the sink. */
export async function makeMonitors(
  t: Teardown,
  { api, sink, count, regions }: { api: Client; sink: Sink; count: number; regions: readonly string[] },
): Promise<Monitors> {
  const channel = await created(api, "/api/v1/notification-channels", {
    name: "Sink",
    config: { type: "webhook", url: sink.url, secret: sink.secret },
  });
  const targets: { id: string; server: HttpTarget }[] = [];
  for (let n = 0; n < count; n++) {
    const server = await startHttpTarget(t);
    const id = await created(api, "/api/v1/targets", {
      name: `Monitor ${n}`,
      check: { type: "http", url: server.url, timeout: 5000 },
      interval: intervalMs / 1000,
      alert_confirmations: 2,
      alerts: [{ channel_id: channel }],
    });
    const put = await api.send("PUT", `/api/v1/targets/${id}/regions`, { json: { regions } });
    if (put.status !== 200) throw new Error(put.text);
    targets.push({ id, server });
  }
  await created(api, "/api/v1/status-pages", { slug: "status", name: "Status" });
  const failed: string[] = [];
  return {
    ids: targets.map(({ id }) => id),
    failed,
    async runOutages(ms) {
      const step = (ms - outageMs) / count;
      await Promise.all(
        targets.map(async ({ id, server }, n) => {
          await sleep(n * step);
          server.behave({ status: 503 });
          await sleep(outageMs);
          server.behave({ status: 200 });
          failed.push(id);
        }),
      );
    },
  };
}

async function created(api: Client, path: string, json: unknown): Promise<string> {
  const { status, body, text } = await api.post(path, json);
  if (status !== 201) throw new Error(`POST ${path}: ${status} ${text}`);
  return (body as { id: string }).id;
}
