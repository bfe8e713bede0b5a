import Type from "typebox";
import { AppError } from "@statusmesh/shared/errors";
import { validate } from "@statusmesh/shared/validate";
import type { Visit } from "../../platform/context.ts";
import { readForm, readJson } from "../../platform/http/body.ts";
import { hasForm, noContent, route, type Route, seeOther } from "../../platform/http/route.ts";
import { Closed } from "../../platform/http/wire.ts";
import { enterWithPassword } from "../page-access/service.ts";
import { pageAt } from "./service.ts";

const maxBytes = 8192;

const Proof = Closed({
  password: Type.String({ maxLength: 2000, description: "The password of the page" }),
});

/** What a visitor of a private page sends to get access. */
export const accessRoutes: Route[] = [
  route("POST", "/status/access", {
    auth: "public",
    tag: "Public",
    summary: "Get access to a private status page",
    description:
      "JSON or a form with `password`. Sets a cookie that opens this page for 30 days, until its password changes. A " +
      "form is led back to the path `next` of the page.",
    replies: { 204: null, 303: null },
    errors: [
      "STATUS_PAGE_NOT_FOUND",
      "STATUS_DATA_UNAVAILABLE",
      "NOT_FOUND",
      "PAGE_ACCESS",
      "RATE_LIMITED",
      "INVALID_JSON",
      "INVALID_BODY",
      "UNKNOWN_FIELD",
      "UNSUPPORTED_MEDIA_TYPE",
      "PAYLOAD_TOO_LARGE",
    ],
    async handle({ ctx, http }) {
      const isForm = hasForm(http);
      const form = isForm ? await readForm(http, maxBytes) : null;
      const input = form === null ? await readJson(http, maxBytes) : { password: form.get("password") ?? "" };
      const { password } = validate(Proof, input) as { password: string };
      const page = await pageAt(ctx);
      if (page.access.mode !== "password") throw new AppError("NOT_FOUND", "This page asks for no password.");
      const next = pathWithin(ctx, form?.get("next") ?? null);
      try {
        http.append("Set-Cookie", await enterWithPassword(ctx, http, page, password));
      } catch (error) {
        const problem = error instanceof AppError ? problems[error.code] : undefined;
        if (!isForm || problem === undefined) throw error;
        return seeOther(`${next}${next.includes("?") ? "&" : "?"}problem=${problem}`);
      }
      return isForm ? seeOther(next) : noContent();
    },
  }),
];

/** What the form says of a refusal. */
const problems: Partial<Record<string, "wrong" | "limit">> = { PAGE_ACCESS: "wrong", RATE_LIMITED: "limit" };

/** A path of the page, to go back to; its start for any other text. */
function pathWithin({ pagePath }: Visit, next: string | null): string {
  const base = pagePath ?? "/status";
  const within = next !== null && /^[/?][\x21-\x7e]*$/.test(next.slice(base.length)) && next.startsWith(base);
  return within && next.length < 2000 ? next : base;
}
