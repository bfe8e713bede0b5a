import { page, wholeNumber } from "../html/pages.ts";
import { listTargets } from "../targets/service.ts";
import { getPage, listComponents, listPages } from "./service.ts";

const pageSize = 50;

export const statusPagesPages = [
  page({
    path: "/status-pages",
    auth: "tenant",
    async handle({ ctx, query }) {
      const list = await listPages(ctx, { limit: pageSize, offset: wholeNumber(query["offset"], 0, 1_000_000) });
      return {
        view: "status-pages/list",
        data: { list, owner: ctx.role === "owner", origin: ctx.config.server.public_url },
      };
    },
  }),
  page({
    path: "/status-pages/new",
    auth: "tenant",
    handle: async ({ ctx }) => ({ view: "status-pages/form", data: { page: null, owner: ctx.role === "owner" } }),
  }),
  page({
    path: "/status-pages/{id}/edit",
    auth: "tenant",
    handle: async ({ ctx, params }) => ({
      view: "status-pages/form",
      data: { page: await getPage(ctx, params["id"]!), owner: ctx.role === "owner" },
    }),
  }),
  page({
    path: "/status-pages/{id}",
    auth: "tenant",
    async handle({ ctx, params }) {
      const id = params["id"]!;
      const [own, components, targets] = await Promise.all([
        getPage(ctx, id),
        listComponents(ctx, id, { limit: 1000, offset: 0 }),
        listTargets(ctx, { limit: 1000, offset: 0 }),
      ]);
      const there = new Set(components.items.map((component) => component.target_id));
      return {
        view: "status-pages/show",
        fragment: "status-pages/components",
        data: {
          page: own,
          components: components.items,
          addable: targets.items.filter((target) => !there.has(target.id)),
          owner: ctx.role === "owner",
        },
      };
    },
  }),
];
