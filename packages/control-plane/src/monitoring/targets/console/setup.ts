import { hasJoinedAgent } from "../../agents/service.ts";
import { type Ctx } from "../../../platform/context.ts";
import * as queries from "./setup-queries.ts";

export interface SetupStep {
  name: "monitor" | "channel" | "status_page" | "agent";
  done: boolean;
}

/** Scopes that a step reads with; the checklist is for callers that may take each step. */
const needed = ["targets:write", "channels:write", "status_page:write"] as const;

/**
 * Steps of the setup checklist. Null once all are done or an owner dismissed it, and for a caller that may not take the
 * steps. An agent counts when it has connected and is not the one that the control plane starts.
 */
export async function setupSteps(ctx: Ctx): Promise<SetupStep[] | null> {
  if (!needed.every((scope) => ctx.scopes.has(scope))) return null;
  const { dismissed, ...has } = await queries.selectSetup(ctx.sql, ctx.orgId);
  if (dismissed) return null;
  const steps: SetupStep[] = [
    { name: "monitor", done: has.monitor },
    { name: "channel", done: has.channel },
    { name: "status_page", done: has.status_page },
    { name: "agent", done: await hasJoinedAgent(ctx.sql) },
  ];
  return steps.every(({ done }) => done) ? null : steps;
}
