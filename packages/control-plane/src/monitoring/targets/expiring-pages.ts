import { page, wholeNumber } from "../../platform/html/pages.ts";
import { expirationLevels } from "./expiring-schema.ts";
import { listExpirations } from "./expiring.ts";

const pageSize = 50;

export const expiringPages = [
  page({
    path: "/expiring",
    auth: "tenant",
    async handle({ ctx, query }) {
      const level = expirationLevels.find((known) => known === query["level"]);
      const list = await listExpirations(ctx, {
        ...(level === undefined ? {} : { level }),
        limit: pageSize,
        offset: wholeNumber(query["offset"], 0, 1_000_000),
      });
      return { view: "targets/expiring", data: { list, level: level ?? "" } };
    },
  }),
];
