import { isHeartbeat } from "@statusmesh/shared/checks";
import { routedChannels } from "../../../alerting/channels/routes/service.ts";
import type { Ctx } from "../../../platform/context.ts";
import { pingUrl } from "../../heartbeats/service.ts";
import type { Target } from "../schema.ts";

/** A target as its own route shows it: with the channels by tag, and of a heartbeat with its ping URL. */
export async function asShown(ctx: Ctx, target: Target): Promise<Target> {
  const routed = await routedChannels(ctx, target.id);
  // Absent without one: the tag of the reply is that of the stored target then.
  const shown = routed.length === 0 ? target : { ...target, alerts_by_tag: routed };
  return isHeartbeat(target.check) ? { ...shown, ping_url: await pingUrl(ctx, target.id) } : shown;
}
