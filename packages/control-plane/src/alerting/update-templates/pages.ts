import { page, wholeNumber } from "../../platform/html/pages.ts";
import { getTemplate, listTemplates } from "./service.ts";

const pageSize = 50;

/** Saved texts. In front of the page of an incident: their path looks like the id of one. */
export const updateTemplatesPages = [
  page({
    path: "/incidents/templates",
    auth: "tenant",
    handle: async ({ ctx, query }) => ({
      view: "update-templates/list",
      data: { list: await listTemplates(ctx, { limit: pageSize, offset: wholeNumber(query["offset"], 0, 1_000_000) }) },
    }),
  }),
  page({
    path: "/incidents/templates/{id}",
    auth: "tenant",
    writes: true,
    handle: async ({ ctx, params }) => ({
      view: "update-templates/edit",
      data: { template: await getTemplate(ctx, params["id"]!) },
    }),
  }),
];
