import { dial } from "@statusmesh/shared/net/dial";
import { messageOf } from "@statusmesh/shared/thrown";
import { portOf } from "@statusmesh/shared/url";
import type { System } from "../platform/context.ts";
import { createOutbound } from "../platform/outbound/client.ts";
import { lastHeartbeat, type Liveness, readLiveness, returnHeartbeat, takeHeartbeat } from "./heartbeat-queries.ts";

const everySecs = 60;
/** Runs of the job start a little early or late. */
const toleranceSecs = 5;
/** A delivery or a claim that is this late is stuck: a claim follows every 5 s. */
const stuckMs = 120_000;

/** Null when monitoring and alerting work, else the reason. `claimedAt` is the last read of the outbox, Unix ms. */
function illness(found: Liveness, claimedAt: number | null, now: number): string | null {
  if (claimedAt === null || now - claimedAt > stuckMs) return "the outbox is not read";
  if (found.stuck_since !== null && now - found.stuck_since.getTime() > stuckMs) return "deliveries are stuck";
  const since = Math.max(found.newest_result_at?.getTime() ?? 0, found.oldest_target_at?.getTime() ?? 0);
  const longestMs = Math.max(stuckMs, (found.shortest_secs ?? 0) * 2000 + 60_000);
  if (found.oldest_target_at !== null && now - since > longestMs) return "no results arrive";
  return null;
}

/**
 * A job that requests `alerts.heartbeat_url` once a minute, by one replica, while this process is healthy: the database
 * can be written, results arrive and deliveries leave. The address is the operator's own, so no guard applies.
 */
export function heartbeatJob(claimedAt: () => number | null) {
  return async (system: System): Promise<"off" | "ill" | "taken" | "sent" | "failed"> => {
    const { sql, clock, log, config } = system;
    const url = config.alerts.heartbeat_url;
    if (url === "") return "off";
    const now = new Date(clock.now());
    const reason = illness(await readLiveness(sql, now), claimedAt(), now.getTime());
    if (reason !== null) {
      log.warn({ reason }, "the heartbeat is not sent");
      return "ill";
    }
    if (!(await takeHeartbeat(sql, now, everySecs - toleranceSecs))) return "taken";
    const outbound = createOutbound({ allowPrivate: true, allowHttp: true, context: system.authorities, clock });
    try {
      const { status } = await outbound.send({ method: "GET", url, headers: {} });
      if (status >= 200 && status < 300) return "sent";
      throw new Error(`the receiver answered ${status}`);
    } catch (error) {
      log.warn({ reason: messageOf(error) }, "the heartbeat could not be sent");
      await returnHeartbeat(sql);
      return "failed";
    }
  };
}

/** Connects to the receiver of the heartbeat, and sends nothing. Returns a line for doctor; throws when it fails. */
export async function checkHeartbeat({ sql, config }: Pick<System, "sql" | "config">): Promise<string> {
  const url = new URL(config.alerts.heartbeat_url);
  const { socket } = await dial({
    host: url.hostname.replace(/^\[|\]$/g, ""),
    port: portOf(url),
    allowPrivate: true,
    signal: AbortSignal.timeout(5_000),
  });
  socket.destroy();
  const at = await lastHeartbeat(sql);
  return `${url.host} answers; ${at === null ? "none was sent yet" : `last sent ${at.toISOString()}`}`;
}
