import type { Role } from "../orgs/schema.ts";

/** Which groups of an identity provider have which role. */
export interface RoleRules {
  /** Claim with the groups; `realm_access.roles` is a claim of that name, or the field of an object. */
  claim: string;
  map: ReadonlyMap<string, Role>;
}

/** The roles with the most rights first. */
const ranking: readonly Role[] = ["owner", "member", "viewer"];

/** The rules of `auth.oidc`; null where no group has a role. The group of an entry ends at its last equals sign. */
export function roleRules({
  groups_claim: claim,
  role_map: entries,
}: {
  groups_claim: string;
  role_map: readonly string[];
}): RoleRules | null {
  if (entries.length === 0) return null;
  const pairs = entries.map((entry): [string, Role] => {
    const at = entry.lastIndexOf("=");
    return [entry.slice(0, at), entry.slice(at + 1) as Role];
  });
  return { claim, map: new Map(pairs) };
}

/** The groups in the claims, a list of texts or one; null without such a claim. */
export function groupsIn(
  claims: Readonly<Record<string, unknown>>,
  { claim }: Pick<RoleRules, "claim">,
): string[] | null {
  const field = (value: unknown, name: string): unknown =>
    typeof value === "object" && value !== null && Object.hasOwn(value, name)
      ? (value as Record<string, unknown>)[name]
      : undefined;
  const found = field(claims, claim) ?? claim.split(".").reduce<unknown>(field, claims);
  if (found === undefined || found === null) return null;
  return (Array.isArray(found) ? found : [found]).filter((group) => typeof group === "string");
}

/** The role with the most rights that one of the groups has; null for none. */
export function roleOf(groups: readonly string[], { map }: RoleRules): Role | null {
  const roles = new Set(groups.flatMap((group) => map.get(group) ?? []));
  return ranking.find((role) => roles.has(role)) ?? null;
}
