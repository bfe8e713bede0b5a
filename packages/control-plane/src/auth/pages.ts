import { localPath, page, type Page, wholeNumber } from "../http/pages.ts";
import { listSessions, listTokens, me } from "./service.ts";

/** A sign-in page is a secret address: nothing outside may learn it, and nothing may keep it. */
const secret = { "Referrer-Policy": "no-referrer", "X-Robots-Tag": "noindex" };

/** Ends of a token to choose from, as a form sends them. */
const ends = (now: number): [value: string, label: string][] => [
  ["", "Never"],
  ...[30, 90, 365].map((days): [string, string] => [new Date(now + days * 86_400_000).toISOString(), `In ${days} days`]),
];

export const authPages: Page[] = [
  page({
    path: "/sign-in",
    door: "public",
    async handle({ ctx, query }) {
      const { auth, email } = ctx.config;
      if (!auth.required) return { redirect: localPath(query["next"]) };
      const byEmail = auth.enabled_methods.includes("magic_link");
      return { view: "auth/sign-in", data: { next: localPath(query["next"]), byEmail, sends: email.smtp_url !== "", asked: query["asked"] === "1" }, headers: secret };
    },
  }),
  page({
    // Mail scanners open links: only the button on this page uses the code up.
    path: "/sign-in/{code}",
    door: "public",
    handle: async ({ params, query }) => ({ view: "auth/sign-in-link", data: { code: params["code"]!, next: localPath(query["next"]) }, headers: secret }),
  }),
  page({
    path: "/settings/tokens",
    door: "tenant",
    async handle({ ctx, query }) {
      const list = await listTokens(ctx, { limit: 50, offset: wholeNumber(query["offset"], 0, 1_000_000) });
      return { view: "auth/tokens", data: { list, scopes: [...ctx.scopes], orgId: ctx.orgId, ends: ends(ctx.clock.now()) } };
    },
  }),
  page({
    path: "/settings",
    door: "tenant",
    async handle({ ctx }) {
      const [who, sessions] = await Promise.all([me(ctx), listSessions(ctx)]);
      return { view: "auth/settings", data: { who, sessions, bySession: ctx.actor.type === "session", owner: ctx.role === "owner" } };
    },
  }),
];
