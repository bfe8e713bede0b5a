import type { Ctx } from "../../platform/context.ts";
import { formPage, page } from "../../platform/html/pages.ts";
import { zoneNames } from "../../platform/zoned.ts";
import { listTags, listTargets } from "../../monitoring/targets/service.ts";
import { subscriberCounts } from "../subscribers/service.ts";
import { languages } from "../languages/schema.ts";
import { textsOf } from "../languages/service.ts";
import { manualStates } from "./schema.ts";
import { getPage, listPages } from "./service.ts";
import { listComponents } from "./components/service.ts";
import { listReaderTokens, missingFor } from "./access/service.ts";

const pageSize = 50;
/** Monitors that the builder offers at once; a search narrows them. */
const offered = 30;
const offeredOfTag = 100;

export const statusPagesPages = [
  page("/status-pages", "tenant", async ({ ctx, offset }) => {
    const list = await listPages(ctx, { limit: pageSize, offset });
    return {
      view: "status-pages/list",
      data: { list, owner: ctx.role === "owner", origin: ctx.config.server.public_url },
    };
  }),
  formPage("/status-pages/new", async ({ ctx }) => ({
    view: "status-pages/form",
    data: { page: null, ...formData(ctx) },
  })),
  formPage("/status-pages/{id}/edit", async ({ ctx, params }) => ({
    view: "status-pages/form",
    data: { page: await getPage(ctx, params["id"]!), ...formData(ctx) },
  })),
  formPage("/status-pages/{id}/access", async ({ ctx, params }) => ({
    view: "status-pages/access",
    data: {
      page: await getPage(ctx, params["id"]!),
      owner: ctx.role === "owner",
      tokens: ctx.role === "owner" ? (await listReaderTokens(ctx, params["id"]!, { limit: 50, offset: 0 })).items : [],
      missing: {
        members: missingFor("members", ctx.config),
        email_domains: missingFor("email_domains", ctx.config),
        groups: missingFor("groups", ctx.config),
      },
      provider: ctx.config.auth.oidc.name,
      outside: ctx.role === "owner" ? (await subscriberCounts(ctx, params["id"]!)).outside : 0,
    },
  })),
  page("/status-pages/{id}", "tenant", async ({ ctx, params, query, rows }) => {
    const id = params["id"]!;
    const owner = ctx.role === "owner";
    const q = (query["q"] ?? "").slice(0, 200);
    const tag = (query["tag"] ?? "").slice(0, 50);
    const most = tag === "" ? offered : offeredOfTag;
    const [own, components, tags] = await Promise.all([
      getPage(ctx, id),
      listComponents(ctx, id, { limit: 1000, offset: 0 }),
      listTags(ctx, { limit: 50, offset: 0 }),
    ]);
    const found = owner
      ? await listTargets(ctx, {
          limit: most,
          offset: 0,
          except: components.items.flatMap((component) => component.target_id ?? []),
          // As the list of monitors, so that selecting all adds them in its order.
          sort: "name",
          ...(q === "" ? {} : { q }),
          ...(tag === "" ? {} : { tag }),
        })
      : { items: [], total: 0 };
    const last = components.items.length - 1;
    return {
      view: "status-pages/show",
      fragment: "status-pages/components",
      data: {
        page: own,
        rows: await rows(
          "status-pages/component",
          components.items.map((one, at) => ({
            one,
            pageId: id,
            owner,
            edited: owner && query["edit"] === one.id,
            // Null draws no heading: the group of the component above, or none at the top.
            heading:
              one.public_group === (components.items[at - 1]?.public_group ?? null)
                ? null
                : (one.public_group ?? "No group"),
            first: at === 0,
            last: at === last,
            states,
          })),
        ),
        groups: [...new Set(components.items.flatMap((component) => component.public_group ?? []))],
        states,
        search: { q, tag, tags: tags.items.map(({ name }) => name) },
        addable: found.items,
        /** Matching monitors that are not offered, besides those on the page. */
        more: found.total - found.items.length,
        owner,
        origin: ctx.config.server.public_url,
      },
    };
  }),
];

/** States to choose from, with their words. */
const states = manualStates.map(
  (state) => [state, `${state.slice(0, 1).toUpperCase()}${state.slice(1).replaceAll("_", " ")}`] as const,
);

const formData = ({ role, config }: Ctx) => ({
  owner: role === "owner",
  zones: zoneNames,
  languages: languages.map((language) => [language, textsOf(language).name] as const),
  logoBytes: config.public_status.max_logo_size_bytes,
});
