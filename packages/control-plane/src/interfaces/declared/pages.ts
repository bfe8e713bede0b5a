import { page } from "../../platform/html/pages.ts";
import { listDrift, listProjects } from "./service.ts";

/** Projects of configuration as code, and the state of the server's own files. */
export const declaredPages = [
  page("/settings/config", "tenant", async ({ ctx }) => {
    return { view: "declared/projects", data: { ...(await listProjects(ctx)), ...(await listDrift(ctx)) } };
  }),
];
