import { AppError } from "@statusmesh/shared/errors";
import type { System } from "../../platform/context.ts";
import { checkConfig } from "./config-rules.ts";
import { isPermanent } from "./kinds/deliver.ts";
import { signature } from "./kinds/webhook.ts";

/**
 * Checks a webhook URL by the rules of webhook channels: https, deny-list, private addresses. The errors of {@link
 * checkConfig} have the pointer `field`.
 */
export function checkWebhookUrl(system: Pick<System, "abuse" | "config">, url: string, field: string): void {
  try {
    checkConfig(system, { type: "webhook", url, headers: {}, secret: null });
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    throw new AppError(error.code, error.message, { field, details: error.details, cause: error });
  }
}

export { isPermanent as isPermanentStatus, signature as webhookSignature };
