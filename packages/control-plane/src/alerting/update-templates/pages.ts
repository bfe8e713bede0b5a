import { formPage, page } from "../../platform/html/pages.ts";
import { getTemplate, listTemplates } from "./service.ts";

const pageSize = 50;

/** Saved texts. In front of the page of an incident: their path looks like the id of one. */
export const updateTemplatesPages = [
  page("/incidents/templates", "tenant", async ({ ctx, offset }) => ({
    view: "update-templates/list",
    data: { list: await listTemplates(ctx, { limit: pageSize, offset }) },
  })),
  formPage("/incidents/templates/{id}", async ({ ctx, params }) => ({
    view: "update-templates/edit",
    data: { template: await getTemplate(ctx, params["id"]!) },
  })),
];
