import Type from "typebox";
import type { Ctx } from "../../platform/context.ts";
import { createdIn, ok, route, type Route } from "../../platform/http/route.ts";
import { paging } from "../../platform/http/wire.ts";
import { withOwnNames } from "./branding-names.ts";
import { subscriberCounts } from "../subscribers/service.ts";
import {
  ChangedStatusPage,
  Component,
  ComponentBulk,
  ComponentCreate,
  ComponentOrder,
  ComponentPage,
  ComponentPatch,
  LogoUpload,
  StatusPage,
  StatusPagePage,
  StatusPagePatch,
  StatusPageRequest,
} from "./schema.ts";
import * as logosService from "./logos/service.ts";
import * as domains from "./domains/service.ts";
import * as components from "./components/service.ts";
import * as service from "./service.ts";

const ComponentParam = Type.Object({ id: Type.String(), target_id: Type.String() });
const read = { auth: "tenant", scope: "status_page:read", tag: "Status pages" } as const;
const write = { auth: "tenant", scope: "status_page:write", role: "owner", tag: "Status pages" } as const;

const logos = [
  { name: "logo", theme: "light", what: "the logo of a page" },
  { name: "logo-dark", theme: "dark", what: "the logo of a page for dark mode" },
] as const;

/** Set and remove a logo. POST and PUT are the same: forms of browsers send POST, files are put. */
const logoRoutes = logos.flatMap(({ name, theme, what }) => {
  const path = `/api/v1/status-pages/{id}/${name}` as const;
  const set = {
    ...write,
    summary: `Set ${what}`,
    description:
      "Takes a form with one file, the bytes of the image, or base64 in JSON. The image is encoded again " +
      "and scaled down.",
    body: LogoUpload,
    upload: { field: "image", limit: 4_194_304 },
    replies: { 200: StatusPage },
    errors: ["STATUS_PAGE_NOT_FOUND", "LOGO_FORMAT_UNSUPPORTED", "LOGO_TOO_MANY_PIXELS", "LOGO_UNREADABLE"],
    async handle({ ctx, params, body }: { ctx: Ctx; params: { id: string }; body: { image: string } }) {
      await logosService.setLogo(ctx, params.id, theme, body.image);
      return ok(await service.getPage(ctx, params.id));
    },
  } as const;
  return [
    route("POST", path, set),
    route("PUT", path, set),
    route("DELETE", path, {
      ...write,
      summary: `Remove ${what}`,
      replies: { 204: null },
      errors: ["STATUS_PAGE_NOT_FOUND"],
      handle: async ({ ctx, params }) => logosService.removeLogo(ctx, params.id, theme),
    }),
  ];
});

/** Status pages and components. Every member reads them, owners change them. */
export const statusPageRoutes: Route[] = [
  route("GET", "/api/v1/status-pages", {
    ...read,
    summary: "List status pages",
    query: Type.Object(paging(50, 1000)),
    replies: { 200: StatusPagePage },
    handle: async ({ ctx, query }) => ok(await service.listPages(ctx, query)),
  }),
  route("POST", "/api/v1/status-pages", {
    ...write,
    summary: "Create a status page",
    body: StatusPageRequest,
    replies: { 201: StatusPage },
    errors: ["INVALID_SLUG", "INVALID_CSS", "SLUG_TAKEN", "QUOTA_EXCEEDED"],
    handle: async ({ ctx, body }) =>
      createdIn("/api/v1/status-pages/", await service.createPage(ctx, withOwnNames(body))),
  }),
  route("GET", "/api/v1/status-pages/{id}", {
    ...read,
    summary: "Read a status page",
    replies: { 200: StatusPage },
    errors: ["STATUS_PAGE_NOT_FOUND"],
    handle: async ({ ctx, params }) => ok(await service.getPage(ctx, params.id)),
  }),
  route("PATCH", "/api/v1/status-pages/{id}", {
    ...write,
    summary: "Change a status page",
    body: StatusPagePatch,
    replies: { 200: ChangedStatusPage },
    errors: [
      "STATUS_PAGE_NOT_FOUND",
      "INVALID_SLUG",
      "INVALID_CSS",
      "SLUG_TAKEN",
      "INVALID_TIME_ZONE",
      "INVALID_CUSTOM_DOMAIN",
      "CUSTOM_DOMAIN_TAKEN",
    ],
    async handle({ ctx, params, body }) {
      const page = await service.updatePage(ctx, params.id, withOwnNames(body));
      return ok({ ...page, subscribers_outside: (await subscriberCounts(ctx, page.id)).outside });
    },
  }),
  route("DELETE", "/api/v1/status-pages/{id}", {
    ...write,
    summary: "Delete a status page",
    replies: { 204: null },
    errors: ["STATUS_PAGE_NOT_FOUND"],
    handle: async ({ ctx, params }) => service.deletePage(ctx, params.id),
  }),
  route("POST", "/api/v1/status-pages/{id}/custom-domain/check", {
    ...write,
    summary: "Check the DNS record of a custom domain",
    description: "Records are checked every 10 minutes until they prove the domain, then daily.",
    replies: { 200: StatusPage },
    errors: ["STATUS_PAGE_NOT_FOUND"],
    async handle({ ctx, params }) {
      await domains.checkDomain(ctx, params.id);
      return ok(await service.getPage(ctx, params.id));
    },
  }),
  ...logoRoutes,
  route("GET", "/api/v1/status-pages/{id}/components", {
    ...read,
    summary: "List the components of a page",
    query: Type.Object(paging(1000, 1000)),
    replies: { 200: ComponentPage },
    errors: ["STATUS_PAGE_NOT_FOUND"],
    handle: async ({ ctx, params, query }) => ok(await components.listComponents(ctx, params.id, query)),
  }),
  route("POST", "/api/v1/status-pages/{id}/components", {
    ...write,
    summary: "Put a component on a page",
    description: "A monitor, or with manual a component without one, whose state is set with PATCH.",
    body: ComponentCreate,
    replies: { 201: Component },
    errors: ["STATUS_PAGE_NOT_FOUND", "TARGET_NOT_FOUND", "COMPONENT_ALREADY_ON_PAGE", "QUOTA_EXCEEDED"],
    handle: async ({ ctx, params, body }) =>
      createdIn(`/api/v1/status-pages/${params.id}/components#`, await components.addComponent(ctx, params.id, body)),
  }),
  route("POST", "/api/v1/status-pages/{id}/components/bulk", {
    ...write,
    summary: "Put several monitors on a page",
    description: "All or nothing. Answers all components of the page in their order.",
    body: ComponentBulk,
    replies: { 200: ComponentPage },
    errors: ["STATUS_PAGE_NOT_FOUND", "TARGET_NOT_FOUND", "QUOTA_EXCEEDED"],
    handle: async ({ ctx, params, body }) => ok(await components.addComponents(ctx, params.id, body)),
  }),
  route("POST", "/api/v1/status-pages/{id}/components/reorder", {
    ...write,
    summary: "Order the components of a page",
    description: "Answers the components in their new order.",
    body: ComponentOrder,
    replies: { 200: ComponentPage },
    errors: ["STATUS_PAGE_NOT_FOUND", "INVALID_COMPONENT_ID"],
    handle: async ({ ctx, params, body }) => ok(await components.reorderComponents(ctx, params.id, body.target_ids)),
  }),
  route("PATCH", "/api/v1/status-pages/{id}/components/{target_id}", {
    ...write,
    summary: "Change a component",
    description:
      "target_id is the id of the component. The state of one without a monitor is set here: it is in the history of " +
      "the page, and subscribers are notified of outages and maintenance.",
    params: ComponentParam,
    body: ComponentPatch,
    replies: { 200: Component },
    errors: ["STATUS_PAGE_NOT_FOUND", "COMPONENT_NOT_FOUND"],
    handle: async ({ ctx, params, body }) =>
      ok(await components.updateComponent(ctx, params.id, params.target_id, body)),
  }),
  route("DELETE", "/api/v1/status-pages/{id}/components/{target_id}", {
    ...write,
    summary: "Take a component off a page",
    params: ComponentParam,
    replies: { 204: null },
    errors: ["STATUS_PAGE_NOT_FOUND", "COMPONENT_NOT_FOUND"],
    handle: async ({ ctx, params }) => components.removeComponent(ctx, params.id, params.target_id),
  }),
];
