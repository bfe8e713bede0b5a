import { grantedBy, isReadScope, type Scope } from "../../platform/context.ts";
import { OAuthProblem } from "./problem.ts";

/** Words for the consent screen, in its order: what the MCP tools of a scope do. */
export const scopeWords: Readonly<Record<Scope, string>> = {
  "targets:read": "See monitors, their results and uptime",
  "status_page:read": "See status pages and their components",
  "incidents:read": "See incidents and their updates",
  "channels:read": "See notification channels, without their secrets",
  "maintenance:read": "See maintenance windows",
  "org:read": "See the organisation, its members and limits",
  "targets:write": "Pause and resume monitors",
  "targets:execute": "Run checks at once; a failing one can notify your channels",
  "incidents:write": "Acknowledge incidents and post updates to public status pages",
  "channels:write": "Change notification channels: who is notified, and where",
  "maintenance:write": "Plan and cancel maintenance windows",
  "status_page:write": "Change public status pages",
  "org:write": "Change the organisation and its members",
};

/** The scopes that MCP clients can request: those of the tools, in the order of the consent screen. */
export function offeredScopes(tools: readonly { readonly scope: Scope }[]): Scope[] {
  const used = new Set(tools.map(({ scope }) => scope));
  return (Object.keys(scopeWords) as Scope[]).filter((scope) => used.has(scope));
}

/**
 * The offered scopes of a request, with the read scopes that its write scopes include. No scope, or unknown ones only,
 * is the read-only default.
 */
export function requestedScopes(offered: readonly Scope[], scope: string | null): Scope[] {
  const names = new Set(scope?.split(" ") ?? []);
  const known = offered.filter((one) => names.has(one));
  if (known.length === 0) return offered.filter(isReadScope);
  const included = grantedBy(known);
  return offered.filter((one) => included.has(one));
}

/** The scopes of a refreshed token: at most the granted ones. Throws invalid_scope for others. */
export function narrowedScopes(scope: string | null, granted: readonly string[]): string[] {
  if (scope === null) return [...granted];
  const names = new Set(scope.split(" ").filter((one) => one !== ""));
  if (names.size === 0 || [...names].some((one) => !granted.includes(one)))
    throw new OAuthProblem("invalid_scope", `The scope can only be narrowed. Granted: ${granted.join(" ")}.`);
  return granted.filter((one) => names.has(one));
}
