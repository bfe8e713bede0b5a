import { record } from "../../../access/audit/service.ts";
import { asSystem, type System } from "../../../platform/context.ts";
import { disableLocked } from "./disabling.ts";
import { DeliveryError } from "../kinds/kind.ts";
import type { SmsConfig } from "../kinds/sms/index.ts";
import * as queries from "../queries.ts";
import { opened } from "./sending.ts";

/**
 * Disables the channels of every organisation at a place, with the reason, in the transaction of an event of a vendor.
 * Those that are disabled already stay as they are. Returns their number.
 */
export async function disableAt(tx: System, place: queries.Place, reason: string, action: string): Promise<number> {
  const rows = (await queries.lockChannelsAt(tx.sql, place)).filter(({ enabled }) => enabled);
  for (const row of rows) await disableLocked(tx, row, reason, action);
  return rows.length;
}

/** Ids of the enabled channels of all organisations at a place, for the hooks. */
export async function channelsAt({ sql }: System, place: queries.Place): Promise<string[]> {
  return (await queries.selectEnabledAt(sql, place)).map(({ id }) => id);
}

/** The enabled SMS channels of all organisations to a number, with opened secrets; without those that do not open. */
export async function smsChannels(system: System, to: string): Promise<{ id: string; config: SmsConfig }[]> {
  const rows = await queries.selectEnabledAt(system.sql, { kind: "sms", field: "to", value: to });
  return rows.flatMap((row) => {
    try {
      const config = opened(system, row);
      return config.type === "sms" ? [{ id: row.id, config }] : [];
    } catch (error) {
      if (error instanceof DeliveryError) return [];
      throw error;
    }
  });
}

/** Writes the new id of a Telegram group that became a supergroup into its channels. */
export async function moveTelegramChat(tx: System, from: string, to: string, action: string): Promise<void> {
  for (const row of await queries.lockChannelsAt(tx.sql, { kind: "telegram_app", field: "chat_id", value: from })) {
    await queries.moveChat(tx.sql, row.org_id, row.id, to, new Date(tx.clock.now()));
    await record(asSystem(tx, row.org_id, action), {
      resourceId: row.id,
      before: { config: { chat_id: from } },
      after: { config: { chat_id: to } },
    });
  }
}
