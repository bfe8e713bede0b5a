import { page } from "../../../platform/html/pages.ts";
import { getPage } from "../../status-pages/service.ts";
import { copiesOf } from "./service.ts";

/** The tab of a status page with its copies. */
export const mirrorPagesOfConsole = [
  page("/status-pages/{id}/mirror", "tenant", async ({ ctx, params }) => {
    const own = await getPage(ctx, params["id"]!);
    return { view: "status-pages/mirror", data: { page: own, copies: await copiesOf(ctx, own.id) } };
  }),
];
