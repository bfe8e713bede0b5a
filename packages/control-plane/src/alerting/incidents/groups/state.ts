import type { GroupCheck, GroupRule } from "@statusmesh/shared/checks/group";

/** Members of a group that count: neither paused, nor under maintenance, nor unknown. */
export interface MemberCounts {
  readonly known: number;
  /** With an open incident that no person opened. */
  readonly down: number;
  /** With one of degraded runs only. They count as up. */
  readonly degraded: number;
}

export type GroupStatus = "up" | "degraded" | "down" | "unknown";

/** State of a group: a pure function of the states of its members. */
export function groupStatus(
  { rule, degraded_below: below }: Pick<GroupCheck, "rule" | "degraded_below">,
  { known, down, degraded }: MemberCounts,
): GroupStatus {
  if (known === 0) return "unknown";
  const up = known - down;
  if (up < neededOf(rule, known)) return "down";
  return below !== null && (degraded > 0 || 100 * up < below * known) ? "degraded" : "up";
}

/** How many of `known` members must be up. */
export function neededOf(rule: GroupRule, known: number): number {
  if (rule === "all") return known;
  if (rule === "any") return Math.min(1, known);
  return "at_least" in rule ? Math.min(rule.at_least, known) : Math.ceil((rule.percent * known) / 100);
}

/** What is wrong with a group: `2 of 5 down: api-1, api-2`. `names`: of members that are down. */
export function groupError({ known, down, degraded }: MemberCounts, names: readonly string[]): string {
  if (down === 0) return `${degraded} of ${known} degraded`;
  const more = down > names.length ? ` and ${down - names.length} more` : "";
  return `${down} of ${known} down: ${names.map(short).join(", ")}${more}`;
}

const short = (name: string): string => (name.length > 30 ? `${name.slice(0, 29)}…` : name);
