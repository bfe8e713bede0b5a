import type { Context, Middleware } from "koa";
import { AppError } from "@statusmesh/shared/errors";
import { validate } from "@statusmesh/shared/schema/validate";
import type { System } from "../../platform/context.ts";
import { localPath } from "../../platform/html/pages.ts";
import type { Views } from "../../platform/html/views.ts";
import { readForm } from "../../platform/http/body/body.ts";
import { atRoute } from "../../platform/http/exchange.ts";
import { securePage } from "../../platform/http/reply/security-headers.ts";
import { openedBy, signedInCookies } from "../auth/sessions/service.ts";
import { SessionCreate } from "../auth/service.ts";
import { codePath, codeView, signInView } from "./pages.ts";

const maxForm = 16_384;

/**
 * POST /sign-in: the forms of the sign-in page, which work without scripts. Leads on to `next`, or shows the page again
 * with the reason of the refusal.
 */
export function signInForm(system: System, views: Views): Middleware {
  return async (http, next) => {
    if (http.path !== "/sign-in" || http.method !== "POST") return await next();
    atRoute(http, http.path);
    http.set("Cache-Control", "no-store");
    await submit(system, views, http);
  };
}

async function submit(system: System, views: Views, http: Context): Promise<void> {
  const sent = await readForm(http, maxForm);
  const next = localPath(sent.get("next") ?? undefined);
  try {
    const opened = await openedBy(system, http, validate(SessionCreate, proofIn(sent)));
    http.set("Set-Cookie", await signedInCookies(system, opened));
    // 303: the browser reads the next page.
    http.status = 303;
    http.redirect(next);
  } catch (error) {
    if (!(error instanceof AppError) || error.status >= 500) throw error;
    if (error.code === "CODE_REQUIRED") {
      http.status = 303;
      return http.redirect(codePath(next));
    }
    const again = sent.has("second") && error.code !== "UNAUTHENTICATED";
    show(
      http,
      views,
      system,
      error,
      again ? codeView({ next, refused: error }) : signInAgain(system, sent, next, error),
    );
  }
}

const signInAgain = (system: System, sent: URLSearchParams, next: string, error: AppError) =>
  signInView(system.config, { next, refused: { error, email: sent.get("email") ?? "" } });

function show(
  http: Context,
  views: Views,
  system: System,
  { retryAfterSecs }: AppError,
  { view, data, status, headers }: ReturnType<typeof signInView> | ReturnType<typeof codeView>,
): void {
  http.status = status;
  if (retryAfterSecs !== null) http.set("Retry-After", String(retryAfterSecs));
  http.type = "text/html; charset=utf-8";
  http.body = views.render(view, { ...data, frame: null }, system.clock.now());
  securePage(http);
  http.set(headers);
}

/** A form sends empty fields, too; a whole link may be pasted where its code is asked for. */
function proofIn(sent: URLSearchParams): Record<string, string> {
  const second = sent.get("second");
  if (second !== null) return { code: second.trim() };
  const code = sent.get("/code");
  if (code !== null) return { code: code.trim().split("/sign-in/").at(-1)!.split(/[?#]/, 1)[0]! };
  return { email: sent.get("email")?.trim() ?? "", password: sent.get("password") ?? "" };
}
