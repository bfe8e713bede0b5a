import type { AppError } from "@statusmesh/shared/errors";
import { askingForCode, callerOf, pendingOf, signedInCookies } from "../auth/sessions/service.ts";
import { isPending } from "../auth/second-factor/service.ts";
import { passkeyOrigin } from "../auth/passkeys/service.ts";
import type { Config } from "../../config/config.ts";
import type { System } from "../../platform/context.ts";
import { localPath, page, type Redirect } from "../../platform/html/pages.ts";
import { endOfFlow, flowCookie, flowOf } from "./flow-cookie.ts";
import { problems, SignInProblem } from "./problem.ts";
import type { Provider, ProviderName } from "./provider.ts";
import { beginSignIn, CodeRequiredAt, finishSignIn, type Providers, requireProvider } from "./service.ts";
import { mayBePopup, secretAddress } from "../../platform/http/reply/security-headers.ts";
import { ownCommand } from "../../platform/program.ts";

/** The sign-in page, and per provider the start and the callback; a browser requests both with GET. */
export const signInPages = (providers: Providers) => [
  page("/sign-in", "public", async ({ ctx, query }) => {
    const next = localPath(query["next"]);
    return ctx.config.auth.required
      ? signInView(ctx.config, { next, asked: query["asked"] === "1" })
      : { redirect: next };
  }),
  page("/sign-in/code", "public", async ({ ctx, query, http }) => {
    const next = localPath(query["next"]);
    const waits = await isPending(ctx, pendingOf(ctx, http));
    return waits ? codeView({ next, refused: null }) : { redirect: `/sign-in?next=${encodeURIComponent(next)}` };
  }),
  ...(["github", "google", "oidc"] as const).flatMap((name) => [begin(name, providers), comeBack(name, providers)]),
];

const begin = (name: ProviderName, providers: Providers) =>
  page(`/sign-in/${name}`, "public", async ({ ctx, query, http }) => {
    const provider = requireProvider(providers, name);
    const next = localPath(query["next"]);
    // Another site may link here; the person still presses the button. A HEAD request starts no flow.
    const site = http.get("sec-fetch-site");
    if (http.method !== "GET" || (site !== "" && site !== "same-origin" && site !== "none"))
      return { redirect: `/sign-in?next=${encodeURIComponent(next)}` };
    return await shown(ctx, provider, next, async () => {
      const { url, browser } = await beginSignIn(ctx, provider, next);
      return { redirect: url, headers: { "Set-Cookie": flowCookie(ctx.config, browser) } };
    });
  });

const comeBack = (name: ProviderName, providers: Providers) =>
  page(`/sign-in/${name}/callback`, "public", async ({ ctx, http }) => {
    const provider = requireProvider(providers, name);
    if (http.method !== "GET") return { redirect: "/sign-in" };
    return await shown(ctx, provider, "/", async () => {
      const { returnTo, ...done } = await askingForCode(ctx, http, async () =>
        finishSignIn(ctx, provider, {
          ...callerOf(ctx, http),
          query: http.search,
          browser: flowOf(ctx.config, http),
        }),
      );
      const cookies = "opened" in done ? await signedInCookies(ctx, done.opened) : done.cookies;
      return { redirect: returnTo, headers: { "Set-Cookie": [...cookies, endOfFlow(ctx.config)] } };
    });
  });

/** The reply, or the sign-in page with the message of the error. */
async function shown(ctx: System, provider: Provider, next: string, work: () => Promise<Redirect>) {
  try {
    return await work();
  } catch (error) {
    if (error instanceof CodeRequiredAt) return { redirect: codePath(error.returnTo) };
    if (!(error instanceof SignInProblem)) throw error;
    ctx.log.warn(
      { provider: provider.name, reason: error.reason, err: error.message },
      "a sign-in with a provider failed",
    );
    return signInView(ctx.config, { next, asked: false, problem: { error, provider } });
  }
}

/**
 * `next` may be a secret address, which only this service sees: without a referrer browsers without Fetch Metadata
 * would send the form with the origin null.
 */
const searchless = { "X-Robots-Tag": secretAddress["X-Robots-Tag"] };

/** The second step of a sign-in, which works without scripts. */
export const codePath = (next: string): string => `/sign-in/code?next=${encodeURIComponent(next)}`;

/** The page of the second step; `refused`: why the code was not accepted. */
export const codeView = ({ next, refused }: { next: string; refused: AppError | null }) => ({
  view: "auth/sign-in-code" as const,
  data: { next, problem: refused?.message ?? null },
  status: refused?.status ?? 200,
  headers: searchless,
});

interface SignInState {
  /** Where to go afterwards. */
  next: string;
  /** A link was requested just now. */
  asked?: boolean;
  problem?: { error: SignInProblem; provider: Provider };
  /** Why the form of the page was refused, and the address that was typed into it. */
  refused?: { error: AppError; email: string };
}

/** The sign-in page: password, passkey, a button per enabled provider, the address for a link, and the last error. */
export function signInView(config: Config, { next, asked = false, problem, refused }: SignInState) {
  const { auth, email } = config;
  const titles = { oidc: auth.oidc.name, google: "Google", github: "GitHub" };
  const providers = (["oidc", "google", "github"] as const)
    .filter((name) => auth.enabled_methods.includes(name))
    .map((name) => ({ name, title: titles[name] }));
  const said = problem === undefined ? null : problems[problem.error.reason];
  const byPassword = auth.enabled_methods.includes("password");
  const sends = email.smtp_url !== "";
  return {
    view: "auth/sign-in" as const,
    data: {
      next,
      command: ownCommand("bootstrap-owner"),
      asked,
      providers,
      byPassword,
      passkeysAt: passkeyOrigin(config),
      // Without mail a link is in the log of the service, which is for those who have nothing else.
      byEmail: auth.enabled_methods.includes("magic_link") && (sends || !byPassword),
      sends,
      email: refused?.email ?? "",
      problem:
        refused !== undefined
          ? { words: refused.error.message, email: null, title: "" }
          : said === null
            ? null
            : {
                words: said.words(problem!.provider.title),
                email: problem!.error.email,
                title: problem!.provider.title,
              },
    },
    status: refused?.error.status ?? said?.status ?? 200,
    headers: {
      ...(problem === undefined ? searchless : secretAddress),
      ...(next.startsWith("/oauth/authorize?") ? mayBePopup : {}),
    },
  };
}
