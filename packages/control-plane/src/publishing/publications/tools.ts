import Type from "typebox";
import { getIncident } from "../../alerting/incidents/service.ts";
import { tool, type Tool } from "../../platform/http/tool.ts";
import { quoted } from "../../platform/http/tool-texts.ts";
import { Closed, Flag } from "../../platform/http/wire.ts";
import { setPublished } from "./service.ts";

export const publicationTools: Tool[] = [
  tool({
    name: "publish_incident",
    title: "Publish an incident",
    description: "Shows an incident on its status pages, or withdraws it. The user confirms it.",
    scope: "incidents:write",
    input: Closed({
      id: Type.String({ maxLength: 50, description: "incident_id" }),
      publish: Flag("false withdraws"),
    }),
    output: Closed({ incident_id: Type.String(), published: Type.Boolean() }),
    confirm: {
      async ask({ ctx, args: { id, publish } }) {
        const { monitor_name, publications } = await getIncident(ctx, id);
        const pages = publications.map(({ page_name }) => quoted(page_name)).join(", ");
        const where = pages === "" ? "no status page has its monitor" : `on the status pages ${pages}`;
        const what = `the incident of the monitor ${quoted(monitor_name)}`;
        return publish
          ? `Publish ${what}: ${where}? Visitors see it from its start, and subscribers are notified.`
          : `Withdraw ${what}: ${where}? Subscribers who were notified of it are told.`;
      },
      idempotent: true,
      destructive: true,
      openWorld: true,
      action: "POST /api/v1/incidents/{id}/publish",
    },
    async handle({ ctx, args: { id, publish } }) {
      const incident = await setPublished(ctx, id, publish, {});
      return { incident_id: incident.id, published: incident.published };
    },
  }),
];
