import type { Context, Middleware } from "koa";
import { AppError } from "@statusmesh/shared/errors";

/** A path, with `{…}` for a segment that varies, and a method that it answers. */
export interface Answered {
  readonly path: string;
  readonly method: string;
}

/** The methods that a path answers, HEAD where GET is one of them; none for a path that there is not. */
function methodsAt(answered: readonly Answered[], path: string): string[] {
  const parts = path.split("/");
  const fitsPath = (declared: string) => {
    const own = declared.split("/");
    return own.length === parts.length && own.every((part, at) => part.startsWith("{") || part === parts[at]);
  };
  const methods = new Set(answered.filter((it) => fitsPath(it.path)).map((it) => it.method));
  return methods.size === 0 ? [] : [...methods, ...(methods.has("GET") ? ["HEAD"] : []), "OPTIONS"];
}

/** Answers a method that the path does not have: OPTIONS with 204 (RFC 9110, section 9.3.7), any other with 405; both with Allow. */
export function answerOtherMethod(http: Context, methods: readonly string[]): void {
  const allowed = methods.join(", ");
  http.set("Allow", allowed);
  if (http.method !== "OPTIONS")
    throw new AppError("METHOD_NOT_ALLOWED", `${http.path} answers ${allowed}, not ${http.method}.`);
  http.set("Cache-Control", "no-store");
  http.status = 204;
}

/** What comes after every route: {@link answerOtherMethod} for the paths that there are. `charge` is called for OPTIONS first. */
export function otherMethods(answered: readonly Answered[], charge: (http: Context) => Promise<void>): Middleware {
  return async (http) => {
    const methods = methodsAt(answered, http.path);
    if (methods.length === 0) return;
    if (http.method === "OPTIONS") await charge(http);
    answerOtherMethod(http, methods);
  };
}
