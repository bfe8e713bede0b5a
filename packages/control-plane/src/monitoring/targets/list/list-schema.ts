import Type, { type Static } from "typebox";
import { checkTypes } from "@statusmesh/shared/checks";
import { SearchText } from "@statusmesh/shared/text";
import { causeFilter } from "../../../alerting/incidents/schema.ts";
import {
  Closed,
  described,
  Flag,
  Integer,
  nullable,
  OneOf,
  PageOf,
  paging,
  Shape,
  Text,
  Timestamp,
} from "../../../platform/http/wire.ts";
import { monitorStates, monitorStatuses, Target } from "../schema.ts";

export const ListedTarget = Shape("ListedTarget", "A target with its current status", {
  ...Target.properties,
  status: OneOf(
    monitorStatuses,
    "Current status; unknown while no region has reported lately, and while the target is paused",
    "up",
  ),
  status_since: nullable(
    described(
      Timestamp,
      "Begin of the status; null before the first result and while the target is paused",
      "2026-11-20T09:30:00.000Z",
    ),
  ),
  last_checked_at: nullable(
    described(Timestamp, "Time of the newest result; null before the first one", "2026-11-20T09:41:30.000Z"),
  ),
});
export type ListedTarget = Static<typeof ListedTarget>;

export const TargetPage = PageOf(ListedTarget);

/** Sort keys of lists of targets. */
export const monitorSorts = ["state", "name", "uptime", "p95", "days_left", "last_checked"] as const;
export type MonitorSort = (typeof monitorSorts)[number];
export const monitorOrders = ["asc", "desc"] as const;
export type MonitorOrder = (typeof monitorOrders)[number];

/** Filters of `GET /targets`. */
export const TargetQuery = Closed({
  ...paging(50, 1000),
  tag: Type.Optional(SearchText({ description: "Only targets with this tag", examples: ["production"] })),
  enabled: Type.Optional(Flag("Enabled or paused targets only")),
  q: Type.Optional(
    SearchText({
      maxLength: 200,
      description: "Words: each is part of the name, of the checked URL, host or domain, or of a tag",
      examples: ["shop"],
    }),
  ),
  state: Type.Optional(OneOf(monitorStates, "Only targets in this state", "down")),
  notified: Type.Optional(Flag("Only targets with, or without, an enabled channel", false)),
  kind: Type.Optional(OneOf(checkTypes, "Only checks of this type", "http")),
  cause: causeFilter("failing targets that share"),
  sort: Type.Optional(
    OneOf(
      monitorSorts,
      "Sort key; newest target first without it. state: worst first, then newest failure; uptime: of 30 days; " +
        "p95: of the newest half hour; days_left: of a certificate or a domain. Targets without a value are last",
      "state",
    ),
  ),
  order: Type.Optional(
    OneOf(monitorOrders, "Direction of `sort`. Default: desc for p95 and last_checked, asc for the others", "asc"),
  ),
});
export type TargetQuery = Static<typeof TargetQuery>;

export const TagCount = Closed(
  {
    name: Text("The tag", "production"),
    count: Integer("Targets that have the tag", 12),
  },
  { title: "TagCount" },
);
export type TagCount = Static<typeof TagCount>;
export const TagPage = PageOf(TagCount);

/** Filters of `GET /tags`. */
export const TagQuery = Closed({
  ...paging(50, 1000),
  q: Type.Optional(
    Type.String({ maxLength: 50, description: "Prefix of the tag, case-insensitive", examples: ["prod"] }),
  ),
});
export type TagQuery = Static<typeof TagQuery>;
