import type { Context, Middleware } from "koa";
import { AppError } from "@statusmesh/shared/errors";

/** True for GET, and for HEAD, which is answered like it. */
export const isRead = ({ method }: Context): boolean => method === "GET" || method === "HEAD";

/** A declared path, with `{…}` for each parameter, and a method that it answers. */
export interface Answered {
  readonly path: string;
  readonly method: string;
}

const isParameter = (segment: string): boolean => segment.startsWith("{");

/** Matches the paths of a declared one; null for a path without parameters, which matches itself. */
const patternOf = (declared: string): RegExp | null =>
  declared.includes("{")
    ? new RegExp(`^${declared.replaceAll(/[.*+?^$()|[\]\\]/g, "\\$&").replaceAll(/\{\w+\}/g, "[^/]+")}$`)
    : null;

/** True where both declared paths match some path, and `left` names a segment literally where `right` first differs. */
function isMoreSpecific(left: string, right: string): boolean {
  const parameter = right.indexOf("{");
  if (parameter === -1 || !left.startsWith(right.slice(0, parameter))) return false;
  const [owns, others] = [left.split("/"), right.split("/")];
  if (owns.length !== others.length) return false;
  const pairs = owns.map((own, at): [string, string] => [own, others[at]!]);
  if (!pairs.every(([own, other]) => own === other || isParameter(own) || isParameter(other))) return false;
  const [own, other] = pairs.find(([a, b]) => a !== b && isParameter(a) !== isParameter(b)) ?? ["{", ""];
  return !isParameter(own) && isParameter(other);
}

/** The declared paths with the methods that they answer. */
export function methodsByPath(answered: readonly Answered[]): ReadonlyMap<string, ReadonlySet<string>> {
  const methods = new Map<string, Set<string>>();
  for (const { path, method } of answered) methods.set(path, (methods.get(path) ?? new Set()).add(method));
  return methods;
}

/**
 * The requests that match `of` and belong to a more specific path that does not answer its method: `/targets/test` is
 * the path of a test, not a target with the id `test`. Returns null where there are none.
 */
export function shadowed(
  of: Answered,
  answered: ReadonlyMap<string, ReadonlySet<string>>,
): ((path: string) => boolean) | null {
  const parameter = of.path.indexOf("{");
  if (parameter === -1) return null;
  const literally = of.path.slice(0, parameter);
  const specific: string[] = [];
  for (const [path, methods] of answered)
    if (path.startsWith(literally) && !methods.has(of.method) && isMoreSpecific(path, of.path)) specific.push(path);
  if (specific.length === 0) return null;
  const literal = new Set(specific);
  const patterns = specific.map(patternOf).filter((pattern) => pattern !== null);
  return (path) => literal.has(path) || patterns.some((pattern) => pattern.test(path));
}

/** Methods of the most specific declared path that matches, with HEAD for GET; empty where no path matches. */
function methodsAt(answered: readonly (Answered & { pattern: RegExp | null })[], path: string): string[] {
  const fitting = answered.filter((it) => it.pattern?.test(path) ?? it.path === path);
  const nearest = fitting.filter((it) => !fitting.some((other) => isMoreSpecific(other.path, it.path)));
  const methods = new Set(nearest.map(({ method }) => method));
  return methods.size === 0 ? [] : [...methods, ...(methods.has("GET") ? ["HEAD"] : []), "OPTIONS"];
}

/** Answers OPTIONS with 204 (RFC 9110, section 9.3.7) and every other method with 405; both with Allow. */
export function answerOtherMethod(http: Context, methods: readonly string[]): void {
  const allowed = methods.join(", ");
  http.set("Allow", allowed);
  if (http.method !== "OPTIONS")
    throw new AppError("METHOD_NOT_ALLOWED", `${http.path} answers ${allowed}, not ${http.method}.`);
  http.set("Cache-Control", "no-store");
  http.status = 204;
}

/** Middleware after all routes: {@link answerOtherMethod} for every declared path. `charge` runs before OPTIONS. */
export function otherMethods(answered: readonly Answered[], charge: (http: Context) => Promise<void>): Middleware {
  const compiled = answered.map((it) => ({ ...it, pattern: patternOf(it.path) }));
  return async (http) => {
    const methods = methodsAt(compiled, http.path);
    if (methods.length === 0) return;
    if (http.method === "OPTIONS") await charge(http);
    answerOtherMethod(http, methods);
  };
}
