import Type from "typebox";
import { tool, type Tool } from "../../platform/http/tool.ts";
import { absent } from "../../platform/http/tool-texts.ts";
import { planOf } from "../plans/service.ts";
import { ownUsage } from "./service.ts";
import { Closed } from "../../platform/http/wire.ts";

const Use = Closed({ used: Type.Integer(), limit: absent(Type.Integer()) });
const PerMinute = absent(Type.Integer());

export const orgTools: Tool[] = [
  tool({
    name: "get_org_usage",
    title: "Usage and limits",
    description: "How much of its plan the organisation uses, and its limits.",
    scope: "targets:read",
    input: Closed({}),
    output: Closed({
      plan: Type.String(),
      usage: Closed(
        {
          monitors: Use,
          status_pages: Use,
          members: Use,
          components: Use,
        },
        { description: "Without limit: unlimited. components: monitors on status pages" },
      ),
      policy: Closed(
        {
          min_check_interval_secs: Type.Integer(),
          reads_per_min: PerMinute,
          writes_per_min: PerMinute,
          checks_now_per_min: PerMinute,
        },
        { description: "Limits of each client; absent: unlimited" },
      ),
    }),
    async handle({ ctx }) {
      const [{ plan, quotas, min_check_interval_secs }, limits] = await Promise.all([ownUsage(ctx), planOf(ctx)]);
      const use = ({ current, limit }: { current: number; limit: number | null }) => ({ used: current, limit });
      return {
        plan,
        usage: {
          monitors: use(quotas.max_targets),
          status_pages: use(quotas.max_status_pages),
          members: use(quotas.max_members),
          components: use(quotas.max_public_components),
        },
        policy: {
          min_check_interval_secs,
          reads_per_min: limits.api_reads_per_min,
          writes_per_min: limits.api_writes_per_min,
          checks_now_per_min: limits.check_now_per_min,
        },
      };
    },
  }),
];
