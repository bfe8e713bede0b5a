import { dayMs } from "@statusmesh/shared/time";
import { formPage } from "../../platform/html/pages.ts";
import { getTarget } from "../../monitoring/targets/service.ts";
import { listShares } from "./service.ts";

/** Ends of a link to choose from, as a form sends them. */
const ends = (now: number): [value: string, label: string][] => [
  ["", "Never"],
  ...[1, 7, 30, 365].map((days): [string, string] => [
    new Date(now + days * dayMs).toISOString(),
    days === 1 ? "In 1 day" : `In ${days} days`,
  ]),
];

export const sharesPages = [
  formPage("/monitors/{id}/shares", async ({ ctx, params, offset }) => {
    const id = params["id"]!;
    const [target, list] = await Promise.all([getTarget(ctx, id), listShares(ctx, id, { limit: 50, offset })]);
    return {
      view: "shares/list",
      data: { target, list, ends: ends(ctx.clock.now()), now: new Date(ctx.clock.now()).toISOString() },
    };
  }),
];
