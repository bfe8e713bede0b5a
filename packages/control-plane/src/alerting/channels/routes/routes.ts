import { AppError } from "@statusmesh/shared/errors";
import { type Ctx, requireScope } from "../../../platform/context.ts";
import { type RoutedChannel, selectRoutedChannels } from "./queries.ts";
import type { Route } from "../schema.ts";

/** The route as it is stored: each tag once. Throws INVALID_TAG without one. */
export function checkedRoute(route: Route | null): Route | null {
  if (route === null) return null;
  const tags = [...new Set(route.tags)];
  if (tags.length === 0)
    throw new AppError("INVALID_TAG", "A route has at least one tag. For a channel without one set route to null.", {
      field: "/route/tags",
    });
  return { tags, match: route.match ?? "any" };
}

/** `by tag prod`, `by tags prod and eu`; of a channel whose monitors may have any of them `by tag prod or eu`. */
export function byTag(tags: readonly string[], match: Route["match"] = "all"): string {
  if (match === "any") return `by tag ${tags.join(" or ")}`;
  return `by ${tags.length === 1 ? "tag" : "tags"} ${tags.join(" and ")}`;
}

/** Channels whose route has a tag of the target and that it does not list, by name. */
export async function routedChannels(ctx: Ctx, targetId: string): Promise<RoutedChannel[]> {
  requireScope(ctx, "targets:read");
  return await selectRoutedChannels(ctx.sql, ctx.orgId, targetId);
}

/** Channels by their tags, with how many: `2 by tag prod`. */
export function routesInWords(channels: readonly Pick<RoutedChannel, "tags">[]): string[] {
  const counts = new Map<string, number>();
  for (const { tags } of channels) counts.set(byTag(tags), (counts.get(byTag(tags)) ?? 0) + 1);
  return [...counts].map(([words, count]) => `${count} ${words}`);
}
