import { AppError } from "@statusmesh/shared/errors";
import { page } from "../../platform/html/pages.ts";
import { listMcpAudit } from "./audit/audit.ts";

const pageSize = 50;

export const mcpPages = [
  page("/settings/audit/mcp-calls", "tenant", async ({ ctx, offset }) => {
    if (ctx.role !== "owner")
      throw new AppError("OWNER_REQUIRED", "Only owners of the organisation can open this page.");
    const list = await listMcpAudit(ctx, ctx.orgId, { limit: pageSize, offset });
    return { view: "mcp/calls", data: { list } };
  }),
];
