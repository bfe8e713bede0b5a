import Type from "typebox";
import { IdText } from "@statusmesh/shared/text";
import { tool, type Tool } from "../../platform/http/tool.ts";
import { absent, clipped, ConsoleUrl, consoleUrl, customerText, fitting } from "../../platform/http/tool-texts.ts";
import { monitorStates as states } from "../../monitoring/targets/schema.ts";
import { monitorStates } from "../../monitoring/targets/health/service.ts";
import { manualStates, type StatusPage } from "./schema.ts";
import { getPage, pagesAfter } from "./service.ts";
import { listComponents } from "./components/service.ts";
import { Closed, Flag, Integer, Text } from "../../platform/http/wire.ts";

/** Components of a page that are read; more do not fit into a result. */
const maxComponents = 500;
/** Longest name, characters. */
const shortText = 200;

const page = {
  page_id: Type.String(),
  slug: Text("Its name in addresses"),
  name: customerText("name of the page"),
  url: absent(Text("Public address")),
  enabled: Flag("Published"),
};

const rowOf = ({ id, slug, name, status_url, enabled }: StatusPage) => ({
  page_id: id,
  slug,
  name: clipped(name, shortText),
  url: status_url,
  enabled,
});

export const statusPageTools: Tool[] = [
  tool({
    name: "list_status_pages",
    title: "List status pages",
    description: "Status pages of the organisation with ids and addresses.",
    scope: "status_page:read",
    input: Closed({
      limit: Type.Integer({ minimum: 1, maximum: 100, default: 20, description: "Rows per page" }),
      cursor: Type.Optional(Type.String({ maxLength: 500, description: "next_cursor of the page before" })),
    }),
    output: Closed({
      status_pages: Type.Array(Closed(page), { description: "Oldest first" }),
      total: Type.Integer(),
      left_out: Integer("Rows that did not fit; next_cursor begins with them"),
      next_cursor: absent(Text("For the next page")),
    }),
    async handle({ ctx, args: { limit }, cursor }) {
      const { items, total } = await pagesAfter(ctx, { after: cursor.after, limit: limit + 1 });
      const { rows, leftOut } = fitting(items.slice(0, limit).map(rowOf));
      const last = rows.at(-1);
      const isLast = leftOut === 0 && items.length <= limit;
      return {
        status_pages: rows,
        total,
        left_out: leftOut,
        next_cursor: isLast || last === undefined ? null : cursor.next(last.page_id),
      };
    },
  }),
  tool({
    name: "get_status_page",
    title: "Status page",
    description: "A status page: its components and states.",
    scope: "status_page:read",
    input: Closed({ page_id: IdText({ maxLength: 100, description: "From list_status_pages" }) }),
    output: Closed({
      ...page,
      access: Text("public, or how it is private"),
      components: Type.Array(
        Closed({
          monitor_id: absent(Type.String()),
          name: customerText("name on the page"),
          state: Type.Enum([...new Set([...states, ...manualStates])], { type: "string" }),
        }),
        { description: "In the order of the page" },
      ),
      left_out: Integer("Components that did not fit"),
      console_url: ConsoleUrl,
    }),
    async handle({ ctx, args: { page_id } }) {
      const found = await getPage(ctx, page_id);
      const { items, total } = await listComponents(ctx, page_id, { limit: maxComponents, offset: 0 });
      const now = await monitorStates(
        ctx,
        items.flatMap(({ target_id }) => target_id ?? []),
      );
      const { rows } = fitting(
        items.map(({ id, target_id, public_name, monitor_name, state }) => ({
          monitor_id: target_id,
          name: clipped(public_name ?? monitor_name ?? "", shortText),
          state: state ?? now.get(id) ?? ("unknown" as const),
        })),
      );
      return {
        ...rowOf(found),
        access: found.access.mode,
        components: rows,
        left_out: total - rows.length,
        console_url: consoleUrl(ctx, `/status-pages/${page_id}`),
      };
    },
  }),
];
