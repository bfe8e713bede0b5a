import Type from "typebox";
import { IdText } from "@statusmesh/shared/text";
import type { Hub } from "../../platform/db/notify.ts";
import { tool, type Tool } from "../../platform/http/tool.ts";
import { absent, clippedOrNull, customerText, quoted } from "../../platform/http/tool-texts.ts";
import { getTarget } from "../targets/service.ts";
import { checkNow } from "./on-demand.ts";
import { Closed } from "../../platform/http/wire.ts";

export const pipelineTools = (hub: Hub): Tool[] => [
  tool({
    name: "run_check_now",
    title: "Run a check now",
    description:
      "Checks one monitor at once and records the result. The user confirms it; a failing result may send alerts.",
    scope: "targets:execute",
    input: Closed({ monitor_id: IdText({ maxLength: 100, description: "From list_monitors" }) }),
    output: Closed({
      monitor_id: Type.String(),
      region: Type.String(),
      status: Type.Enum(["up", "down", "degraded", "error"], {
        type: "string",
        description: "error: the check itself failed",
      }),
      error: absent(customerText("what failed")),
      http_status: absent(Type.Integer()),
      total_ms: absent(Type.Number({ description: "Duration" })),
    }),
    confirm: {
      async ask({ ctx, args }) {
        const { name } = await getTarget(ctx, args.monitor_id);
        const effect = "The result is recorded; a failing one may send the usual alerts.";
        return `Check the monitor ${quoted(name)} now? ${effect}`;
      },
      idempotent: false,
      destructive: false,
      openWorld: true,
      action: null,
    },
    async handle({ ctx, args: { monitor_id } }) {
      const { region, status, error, http_status, total_ms } = await checkNow(ctx, hub, monitor_id);
      return { monitor_id, region, status, error: clippedOrNull(error), http_status, total_ms };
    },
  }),
];
