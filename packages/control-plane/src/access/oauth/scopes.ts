import type { Scope } from "../../platform/context.ts";
import { OAuthProblem } from "./problem.ts";

/** Scopes of the MCP server: words for the consent screen, in its order. */
export const scopeWords = {
  "targets:read": "See monitors, their results and uptime",
  "status_page:read": "See status pages and their components",
  "incidents:read": "See incidents and their updates",
  "targets:write": "Pause and resume monitors",
  "targets:execute": "Run checks at once; a failing one can notify your channels",
  "incidents:write": "Acknowledge incidents and post updates to public status pages",
} as const satisfies Partial<Record<Scope, string>>;

export type McpScope = keyof typeof scopeWords;
export const mcpScopes = Object.keys(scopeWords) as McpScope[];

export const isReadScope = (scope: string): boolean => scope.endsWith(":read");
const readScopes = mcpScopes.filter(isReadScope);

/**
 * The known scopes of a request, with the read scopes that its write scopes include. No scope, or unknown ones only, is
 * the read-only default.
 */
export function requestedScopes(scope: string | null): McpScope[] {
  const names = new Set(scope?.split(" ") ?? []);
  const known = mcpScopes.filter((one) => names.has(one));
  if (known.length === 0) return readScopes;
  const included = new Set(known.map((one) => `${one.slice(0, one.indexOf(":"))}:read`));
  return mcpScopes.filter((one) => names.has(one) || included.has(one));
}

/** The scopes of a refreshed token: at most the granted ones. Throws invalid_scope for others. */
export function narrowedScopes(scope: string | null, granted: readonly string[]): string[] {
  if (scope === null) return [...granted];
  const names = new Set(scope.split(" ").filter((one) => one !== ""));
  if (names.size === 0 || [...names].some((one) => !granted.includes(one)))
    throw new OAuthProblem("invalid_scope", `The scope can only be narrowed. Granted: ${granted.join(" ")}.`);
  return granted.filter((one) => names.has(one));
}
