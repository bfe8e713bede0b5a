import Type from "typebox";
import { tool, type Tool } from "../http/tool.ts";
import { nullable } from "../http/wire.ts";
import { planOf } from "../plans/service.ts";
import { ownUsage } from "./service.ts";

const closed = { additionalProperties: false } as const;
const Use = (things: string) =>
  Type.Object(
    {
      used: Type.Integer({ description: "Current number" }),
      limit: nullable(Type.Integer({ description: "Limit of the plan; null: unlimited" })),
    },
    { ...closed, description: things },
  );
const perMinute = (what: string) => nullable(Type.Integer({ description: `${what} per minute; null: unlimited` }));

export const orgTools: Tool[] = [
  tool({
    name: "get_org_usage",
    title: "Usage and limits",
    description:
      "How much of its plan the organisation uses, and the limits that apply. Use it before the user adds monitors, " +
      "or when something was refused by a limit.",
    scope: "targets:read",
    input: Type.Object({}, closed),
    output: Type.Object(
      {
        plan: Type.String({ description: "Id of the plan" }),
        usage: Type.Object(
          {
            monitors: Use("Monitors"),
            status_pages: Use("Status pages"),
            members: Use("Members of the organisation"),
            components: Use("Monitors on status pages"),
          },
          { ...closed, description: "Against the limits of the plan" },
        ),
        policy: Type.Object(
          {
            min_check_interval_secs: Type.Integer({ description: "Shortest interval of checks, seconds" }),
            reads_per_min: perMinute("Reads by API and MCP"),
            writes_per_min: perMinute("Writes by API and MCP"),
            checks_now_per_min: perMinute("Checks on demand"),
          },
          { ...closed, description: "Limits on what each client may do" },
        ),
      },
      closed,
    ),
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
