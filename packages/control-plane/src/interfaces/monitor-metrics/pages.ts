import { AppError } from "@statusmesh/shared/errors";
import { page } from "../../platform/html/pages.ts";
import { monitorOfNumber } from "./service.ts";

/** Where the links of Home Assistant lead, whose base address is `/kuma`. */
export const kumaPages = [
  ...["/kuma", "/kuma/dashboard"].map((path) => page(path, "tenant", async () => ({ redirect: "/monitors" }))),
  page("/kuma/dashboard/{id}", "tenant", async ({ ctx, params }) => {
    const id = /^\d{1,9}$/.test(params["id"]!) ? await monitorOfNumber(ctx, Number(params["id"])) : null;
    if (id === null) throw new AppError("TARGET_NOT_FOUND", "Monitor not found.");
    return { redirect: `/monitors/${id}` };
  }),
];
