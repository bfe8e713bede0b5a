import type { Config } from "../../config/config.ts";

/** Kinds that a visitor can connect with a form. */
const byForm = ["slack", "discord", "msteams", "google_chat", "webhook", "ntfy", "pushover", "pagerduty", "email"];

/** Kinds that a delegation link can connect here: those with a form, and chats where the bot or the number is on. */
export function delegableKinds({ channels }: Config): string[] {
  return [
    ...byForm,
    ...(channels.telegram.bot_token === "" ? [] : ["telegram_app"]),
    ...(channels.whatsapp.access_token === "" ? [] : ["whatsapp_app"]),
  ];
}

export const isDelegable = (config: Config, kind: string): boolean => delegableKinds(config).includes(kind);
