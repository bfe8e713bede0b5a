import Type from "typebox";
import { AppError } from "@statusmesh/shared/errors";
import { validate } from "@statusmesh/shared/schema/validate";
import { readForm, readJson } from "../../../platform/http/body/body.ts";
import { visitorAddress } from "../../../platform/http/limits/per-ip.ts";
import { hasForm, noContent, route, type Route, seeOther } from "../../../platform/http/route.ts";
import { Closed } from "../../../platform/http/wire.ts";
import { preferredLanguage } from "../../languages/service.ts";
import { enterWithPassword, noAccess, requestLink, useLink } from "../../page-access/service.ts";
import { type AccessProblem, pathWithin, withProblem } from "./paths.ts";
import { pageAt } from "../service.ts";

const maxBytes = 8192;

const Proof = Closed({
  password: Type.Optional(Type.String({ maxLength: 2000, description: "The password of the page" })),
  email: Type.Optional(
    Type.String({ maxLength: 254, description: "An address of a domain of the page, which is sent a link" }),
  ),
});

const errors = ["STATUS_PAGE_NOT_FOUND", "STATUS_DATA_UNAVAILABLE", "PAGE_ACCESS"] as const;

/** What a visitor of a private page sends to get access. */
export const accessRoutes: Route[] = [
  route("POST", "/status/access", {
    auth: "public",
    tag: "Public",
    summary: "Get access to a private status page",
    description:
      "JSON or a form with `password` sets a cookie that opens this page for 30 days, until its password changes. " +
      "With `email`, an address of the domains of the page is sent a link; the reply is the same for all others. A " +
      "form is led back to the path `next` of the page.",
    replies: { 204: null, 303: null },
    errors: [
      ...errors,
      "NOT_FOUND",
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
      const input = form === null ? await readJson(http, maxBytes) : fieldsOf(form);
      const { password, email } = validate(Proof, input) as { password?: string; email?: string };
      const page = await pageAt(ctx);
      const next = pathWithin(ctx.pagePath ?? "/status", form?.get("next") ?? null);
      try {
        if (page.access.mode === "email_domains") {
          const visitor = visitorAddress(http, ctx.config);
          const language = preferredLanguage(page.branding, http);
          await requestLink(ctx, page, { email: required(email, "/email"), visitor, language });
          return isForm ? seeOther(withProblem(next, "sent")) : noContent();
        }
        if (page.access.mode !== "password")
          throw new AppError("NOT_FOUND", "This page asks for neither a password nor an address.");
        http.append("Set-Cookie", await enterWithPassword(ctx, http, page, required(password, "/password")));
      } catch (error) {
        const problem = error instanceof AppError ? problems[error.code] : undefined;
        if (!isForm || problem === undefined) throw error;
        return seeOther(withProblem(next, problem));
      }
      return isForm ? seeOther(next) : noContent();
    },
  }),
  route("POST", "/status/access/{token}", {
    auth: "public",
    tag: "Public",
    summary: "Use a link to a private status page",
    description:
      "The token of a link that was sent by mail, once and within 15 minutes. Sets a cookie that opens this page for " +
      "30 days, while the domain of the address is one of the page. A form is led to the page.",
    replies: { 204: null, 303: null },
    errors,
    async handle({ ctx, http, params }) {
      const page = await pageAt(ctx);
      const cookie = await useLink(ctx, page, params.token);
      const isForm = hasForm(http);
      if (cookie === null && !isForm) throw noAccess("The link was used, or is older than 15 minutes.");
      if (cookie !== null) http.append("Set-Cookie", cookie);
      return isForm
        ? seeOther(withProblem(ctx.pagePath ?? "/status", cookie === null ? "expired" : null))
        : noContent();
    },
  }),
];

/** The fields of the form, of which a page shows one. */
const fieldsOf = (form: URLSearchParams): Record<string, string> =>
  Object.fromEntries(["password", "email"].flatMap((name) => (form.has(name) ? [[name, form.get(name)!]] : [])));

function required(value: string | undefined, field: "/email" | "/password"): string {
  if (value !== undefined) return value.trim();
  throw new AppError("INVALID_BODY", `This page asks for ${field.slice(1)}.`, { field });
}

/** What the form says of a refusal. */
const problems: Partial<Record<string, AccessProblem>> = {
  PAGE_ACCESS: "wrong",
  RATE_LIMITED: "limit",
  INVALID_BODY: "input",
};
