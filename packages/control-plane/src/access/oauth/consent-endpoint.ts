import type { Context } from "koa";
import { AppError } from "@statusmesh/shared/errors";
import { browserSession } from "../auth/sessions/service.ts";
import type { System } from "../../platform/context.ts";
import type { Views } from "../../platform/html/views.ts";
import { readForm } from "../../platform/http/body/body.ts";
import { visitorAddress } from "../../platform/http/limits/per-ip.ts";
import { mayBePopup, secretAddress, securePage } from "../../platform/http/reply/security-headers.ts";
import { answerForm, openForm, orgIn } from "./consent.ts";
import { ConsentProblem } from "./problem.ts";
import { hostOf } from "./redirects.ts";

const notFromHere = new ConsentProblem(
  403,
  "This form cannot be accepted",
  "Another site sent the form, or you are no longer signed in. Nothing was connected. Start again in the app.",
);

/**
 * POST /oauth/authorize: answers the consent form with a page that leads the browser to the client, or one with the
 * problem. No redirect: browsers apply form-action to every hop after a form (CSP 3, section 6.4.2), and a client may
 * redirect on to any scheme.
 */
export async function submitConsent(system: System, http: Context, views: Views, limit: number): Promise<void> {
  http.set(secretAddress);
  const show = (view: string, data: object): void => {
    http.type = "text/html; charset=utf-8";
    http.body = views.render(view, { ...data, frame: null }, system.clock.now());
    securePage(http);
    http.set({ ...secretAddress, ...mayBePopup });
  };
  try {
    const to = await answerOf(system, http, limit);
    http.set("Refresh", `0; url=${to}`);
    show("oauth/answer", { to, host: hostOf(to) });
  } catch (error) {
    const problem = asProblem(error);
    if (problem === null) throw error;
    http.status = problem.status;
    show("oauth/problem", { title: problem.title, words: problem.message });
  }
}

function asProblem(error: unknown): ConsentProblem | null {
  if (error instanceof ConsentProblem) return error;
  return error instanceof AppError && error.status === 400
    ? new ConsentProblem(400, "This form cannot be read", error.message)
    : null;
}

async function answerOf(system: System, http: Context, limit: number): Promise<string> {
  if (isForeign(http)) throw notFromHere;
  const sent = await readForm(http, limit);
  const [field, ...more] = sent.getAll("request");
  if (field === undefined || more.length > 0) throw notFromHere;
  const session = await browserSession(system, http, orgIn(field));
  if (session === null) throw notFromHere;
  const form = openForm(session, field);
  if (form.org !== session.ctx.orgId) throw notFromHere;
  const trail = {
    action: "POST /oauth/authorize",
    ip: visitorAddress(http, system.config),
    userAgent: http.get("user-agent") || null,
    recorded: false,
  };
  const days = sent.getAll("days");
  return await answerForm({ ...session.ctx, trail }, form, {
    decision: sent.getAll("decision").join(),
    days: days.length === 1 ? days[0]! : null,
    ticked: sent.getAll("scope"),
  });
}

/**
 * True for a form of another site. The signed field is the protection; this only keeps other sites from guessing. The
 * page sends no referrer, so browsers without Fetch Metadata send the origin as null.
 */
function isForeign(http: Context): boolean {
  const site = http.get("sec-fetch-site");
  if (site !== "") return site !== "same-origin";
  const origin = http.get("origin");
  if (origin === "" || origin === "null") return false;
  return !URL.canParse(origin) || new URL(origin).host !== http.host;
}
