import { isGroup } from "@statusmesh/shared/checks";
import type { GroupCheck } from "@statusmesh/shared/checks/group";
import { type MemberCounts, neededOf } from "../../../alerting/incidents/groups/service.ts";
import { memberStates } from "../../../alerting/incidents/service.ts";
import type { Ctx } from "../../../platform/context.ts";
import { number, plural } from "../../../platform/html/format.ts";
import type { Target } from "../schema.ts";

/** Members of each state that the page shows. */
const shown = 20;

const words = {
  down: "down",
  degraded: "degraded",
  unknown: "without data",
  maintenance: "under maintenance",
  paused: "paused",
  up: "up",
} as const;

/** The part of a monitor's page that only a group has; null for other kinds. */
export async function groupPanel(ctx: Ctx, target: Target) {
  const { check } = target;
  if (!isGroup(check)) return null;
  const rows = await memberStates(ctx, target.id, shown);
  const states = (Object.keys(words) as (keyof typeof words)[]).flatMap((state) => {
    const items = rows.filter((row) => row.state === state);
    return items.length === 0 ? [] : [{ state, word: words[state], total: items[0]!.total, items }];
  });
  const count = (state: keyof typeof words): number => states.find((one) => one.state === state)?.total ?? 0;
  const [down, degraded] = [count("down"), count("degraded")];
  const counts = { known: count("up") + down + degraded, down, degraded };
  return { states, rule: ruleSentence(check), outlook: outlook(check, counts) };
}

/** The rule in words. */
function ruleSentence({ rule, degraded_below: below }: Pick<GroupCheck, "rule" | "degraded_below">): string {
  const needed =
    rule === "all"
      ? "every member is up"
      : rule === "any"
        ? "at least one member is up"
        : "at_least" in rule
          ? `at least ${plural(rule.at_least, "member")} ${rule.at_least === 1 ? "is" : "are"} up`
          : `at least ${rule.percent} % of the members are up`;
  const degraded =
    below === null ? "" : ` Degraded while fewer than ${below} % of the members are up or one of them is degraded.`;
  return `Up while ${needed}.${degraded}`;
}

/** What would bring the group down, or up again. */
function outlook({ rule }: Pick<GroupCheck, "rule">, { known, down }: MemberCounts): string {
  if (known === 0) return "No member has data.";
  const spare = known - down - neededOf(rule, known);
  if (spare < 0) return `Up again when ${number(-spare)} more ${spare === -1 ? "member is" : "members are"} up.`;
  if (spare === 0) return "The next member that goes down brings it down.";
  return `Down when ${number(spare + 1)} more members go down.`;
}
