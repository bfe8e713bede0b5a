import Type, { type Static } from "typebox";
import { type CheckSpec, isProbedType, kindOf, type ProbedType, probedTypes } from "./index.ts";
import { Closed, described } from "../schema/shapes.ts";

const name = "^[a-z0-9_-]{1,40}$";

/** What an agent says of one kind; empty where it runs every check of it. */
const Ability = Closed({
  unable: Type.Optional(
    described(
      Type.String({ pattern: name }),
      "Cause for which it runs no check of the kind; the kind has words for it",
      "ping_missing",
    ),
  ),
  names: Type.Optional(
    Type.Array(Type.String({ pattern: name }), {
      maxItems: 1000,
      description: "What a check of the kind may name, such as a command",
      examples: [["disk"]],
    }),
  ),
});

/** The kinds of checks that an agent knows, with what keeps it from running some of them. */
export const Abilities = Type.Record(Type.String({ pattern: name }), Ability, {
  maxProperties: 100,
  description: "Kinds of checks that the agent knows: it is assigned no others. A value says what it cannot run of one",
  examples: [{ http: {}, tcp: {} }],
});
export type Abilities = Static<typeof Abilities>;

/** Those of an agent of this release that can run everything. */
export const allAbilities: Abilities = Object.fromEntries(probedTypes.map((type) => [type, {}]));

/** What the check names that an agent must have; null for a check of which the kind says enough. */
export const neededName = (spec: CheckSpec): string | null => kindOf(spec).needs?.(spec) ?? null;

/** True for an agent that runs the check. */
export function isAble(abilities: Abilities, spec: CheckSpec): boolean {
  const ability = abilities[spec.type];
  if (ability === undefined || ability.unable !== undefined) return false;
  const needed = neededName(spec);
  return needed === null || ability.names?.includes(needed) === true;
}

/** Why an agent runs no check of the kind, with what to do about it; null where it runs some. */
export function inability(abilities: Abilities, type: ProbedType, version: string): string | null {
  const ability = Object.hasOwn(abilities, type) ? abilities[type] : undefined;
  const { label, causes = {} } = kindOf({ type });
  if (ability === undefined) return `sm-agent ${version} does not know ${label} checks: update it`;
  const { unable } = ability;
  if (unable === undefined) return null;
  return Object.hasOwn(causes, unable) ? causes[unable]! : `it cannot run ${label} checks (${unable})`;
}

/** Why an agent does not run the check, with what to do about it; null where it does. */
export function inabilityFor(abilities: Abilities, spec: CheckSpec, version: string): string | null {
  if (!isProbedType(spec.type) || isAble(abilities, spec)) return null;
  return inability(abilities, spec.type, version) ?? kindOf(spec).lacks?.(spec) ?? null;
}
