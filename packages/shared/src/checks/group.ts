import Type, { type Static } from "typebox";
import { AppError } from "../errors.ts";
import { Faults } from "../schema/faults.ts";
import { Closed, Shape } from "../schema/shapes.ts";
import type { CheckKind } from "./kind.ts";

const errorCode = "INVALID_GROUP";

/** Members that a group lists; a tag adds every monitor that has it. */
const maxListed = 1000;
/** How many groups may stand above each other. */
export const maxDepth = 4;

const percent = (minimum: number, description: string, example: number) =>
  Type.Integer({ minimum, maximum: 100, errorCode, description, examples: [example] });

const GroupMember = Type.Union(
  [
    Closed({
      target_id: Type.String({
        pattern: "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
        format: "uuid",
        errorCode,
        description: "Id of a target",
        examples: ["01931f2e-7c1a-7d30-9b5e-2f6a4c8d1e90"],
      }),
    }),
    Closed({
      tag: Type.String({ minLength: 1, maxLength: 50, errorCode, description: "A tag", examples: ["production"] }),
    }),
  ],
  { errorCode, description: "{target_id}, or {tag}: every target with the tag, except the group itself" },
);
export type GroupMember = Static<typeof GroupMember>;

const GroupRule = Type.Union(
  [
    Type.Literal("all"),
    Type.Literal("any"),
    Closed({
      at_least: Type.Integer({
        minimum: 1,
        maximum: 10_000,
        errorCode,
        description: "So many must be up; all of those that are known where fewer are",
        examples: [2],
      }),
    }),
    Closed({ percent: percent(1, "So many percent of the known members must be up", 50) }),
  ],
  {
    default: "all",
    errorCode,
    description: "Which members must be up for the group to be up: all, any, {at_least} or {percent}; degraded is up",
    examples: ["all"],
  },
);
export type GroupRule = Static<typeof GroupRule>;

export const GroupCheck = Shape("GroupCheck", "Members decide by a rule; nothing is probed", {
  type: Type.Literal("group"),
  members: Type.Array(GroupMember, {
    default: [],
    maxItems: maxListed,
    errorCode,
    description: "Targets, groups among them, and tags. Unknown, paused and maintained members do not count",
    form: { label: "Members", view: { name: "targets/fields/group-members", with: ["rule", "degraded_below"] } },
  }),
  rule: GroupRule,
  degraded_below: Type.Union([percent(1, "", 100), Type.Null()], {
    default: null,
    errorCode,
    description:
      "While the rule holds: degraded when fewer than so many percent of the known members are up, or one of them is " +
      "degraded; null: never degraded",
    examples: [100],
  }),
  hold_members: Type.Boolean({
    default: false,
    description: "true holds openings of members while the group has an open incident",
    form: {
      label: "Hold notifications of members",
      hint: "While the group is down, new incidents of its members send none.",
    },
  }),
});
export type GroupCheck = Static<typeof GroupCheck>;

/** Reserved region: incidents of groups carry it, and no agent can have it. */
export const groupRegion = "group";

/** The interval that groups read back, seconds: their incidents reopen within three of them, 5 minutes at least. */
export const groupIntervalSecs = 60;

const keyOf = (member: GroupMember): string => ("tag" in member ? `tag ${member.tag}` : `id ${member.target_id}`);

/** The rule in words: `2 or more up`. */
function ruleInWords(rule: GroupRule): string {
  if (rule === "all") return "all up";
  if (rule === "any") return "any up";
  return "at_least" in rule ? `${rule.at_least} or more up` : `${rule.percent} % or more up`;
}

export const group: CheckKind<typeof GroupCheck> = {
  type: "group",
  label: "Group",
  purpose: "Several monitors, judged as one",
  icon: "group",
  schema: GroupCheck,
  minIntervalSecs: 10,
  defaultIntervalSecs: groupIntervalSecs,
  rules({ members }) {
    const faults = new Faults();
    const seen = new Set<string>();
    for (const [at, member] of members.entries()) {
      const key = keyOf(member);
      if (seen.has(key))
        faults.add(
          new AppError(errorCode, "This member is listed twice. List each one once.", { field: `/members/${at}` }),
        );
      seen.add(key);
    }
    faults.throwAny();
  },
  reported: true,
  destination: () => null,
  mapSecrets: (spec) => spec,
  secretsGoTo: () => null,
  summary: ({ members, rule }) => {
    const tags = members.flatMap((member) => ("tag" in member ? [member.tag] : []));
    const listed = members.length - tags.length;
    const parts = [
      ...(listed > 0 || tags.length === 0 ? [`${listed} ${listed === 1 ? "monitor" : "monitors"}`] : []),
      ...tags.map((tag) => `tag ${tag}`),
    ];
    return `${parts.join(", ")}: ${ruleInWords(rule)}`;
  },
  searchText: ({ members }) => members.flatMap((member) => ("tag" in member ? [member.tag] : [])).join("\n"),
};
