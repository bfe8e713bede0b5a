import { localPath, page, type Page } from "../http/pages.ts";
import { listSessions, me } from "./service.ts";

/** A sign-in page is a secret address: nothing outside may learn it, and nothing may keep it. */
const secret = { "Referrer-Policy": "no-referrer", "X-Robots-Tag": "noindex" };

export const authPages: Page[] = [
  page({
    path: "/sign-in",
    door: "public",
    handle: async ({ query }) => ({ view: "auth/sign-in", data: { next: localPath(query["next"]) }, headers: secret }),
  }),
  page({
    // Mail scanners open links: only the button on this page uses the code up.
    path: "/sign-in/{code}",
    door: "public",
    handle: async ({ params, query }) => ({ view: "auth/sign-in-link", data: { code: params["code"]!, next: localPath(query["next"]) }, headers: secret }),
  }),
  page({
    path: "/settings",
    door: "tenant",
    async handle({ ctx }) {
      const [who, sessions] = await Promise.all([me(ctx), listSessions(ctx)]);
      return { view: "auth/settings", data: { who, sessions, bySession: ctx.actor.type === "session" } };
    },
  }),
];
