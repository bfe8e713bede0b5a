import { AppError } from "@statusmesh/shared/errors";
import { newId } from "@statusmesh/shared/ids";
import { type Ctx, requireScope } from "../../../platform/context.ts";
import type { Outbound } from "../../../platform/outbound/client.ts";
import { checkConfig, refuseDeniedUrls } from "../config/rules.ts";
import { findChannel } from "../find.ts";
import { isChannelType } from "../kinds/index.ts";
import { type ChannelMessage, DeliveryError } from "../kinds/kind.ts";
import * as queries from "../queries.ts";
import type { ChannelTest } from "../schema.ts";
import { channelOutbound, disablingEnded, mailHeaders, opened, send } from "./sending.ts";
import { addressToConfirm } from "../verification/verification.ts";

/** Sends a test message with an unsaved config. Throws CHANNEL_TEST_FAILED with the reply of the receiver. */
export async function testConfig(
  ctx: Ctx,
  { config }: ChannelTest,
  transport: Outbound = channelOutbound(ctx),
): Promise<void> {
  requireScope(ctx, "channels:write");
  checkConfig(ctx, config);
  if (addressToConfirm(config) !== null) throw unverified();
  await sendTest(ctx, () => send(ctx, config, testMessage(ctx), transport));
}

/**
 * Sends a test message with the stored config, also of a disabled channel. An accepted one ends `failing_since`. Throws
 * CHANNEL_TEST_FAILED, DOMAIN_DENYLISTED.
 */
export async function testChannel(ctx: Ctx, id: string, transport: Outbound = channelOutbound(ctx)): Promise<void> {
  requireScope(ctx, "channels:write");
  await testStored(ctx, await findChannel(ctx, id), transport);
}

/** {@link testChannel} of a channel that the caller may use. */
export async function testStored(
  ctx: Ctx,
  row: queries.ChannelRow,
  transport: Outbound = channelOutbound(ctx),
): Promise<void> {
  const { id } = row;
  if (isChannelType(row.kind) && addressToConfirm(row.config) !== null && row.verified_at === null) throw unverified();
  await sendTest(ctx, async () => {
    const config = opened(ctx, row);
    refuseDeniedUrls(ctx, config, null);
    const headers = await mailHeaders(ctx, id, config);
    await disablingEnded(ctx, row, () => send(ctx, config, testMessage(ctx), transport, headers));
  });
  await queries.endFailing(ctx.sql, id);
  await queries.setTested(ctx.sql, ctx.orgId, id, new Date(ctx.clock.now()));
}

async function sendTest(ctx: Ctx, work: () => unknown): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof DeliveryError)) throw error;
    ctx.log.debug({ reason: error.message }, "a channel test failed");
    throw new AppError("CHANNEL_TEST_FAILED", `The test message was not delivered: ${error.message}.`, {
      details: { status: error.status, reason: error.message },
      cause: error,
    });
  }
}

function testMessage(ctx: Ctx): ChannelMessage {
  const now = ctx.clock.now();
  return {
    deliveryId: newId(),
    sentAt: now,
    content: {
      kind: "test",
      notice: {
        incident_id: newId(),
        target_id: newId(),
        monitor_name: "Test monitor",
        reason: "opened",
        severity: "minor",
        urgency: "low",
        started_at: new Date(now).toISOString(),
        ended_at: null,
        outage_since: null,
        duration_secs: null,
        error_sample: "This is a test message. Nothing is wrong.",
        regions_down: [],
        regions_up: [],
        url: ctx.config.server.public_url,
      },
    },
  };
}

const unverified = () =>
  new AppError(
    "CHANNEL_UNVERIFIED",
    "email address not verified: open the link in the mail that creating the channel has sent.",
  );
