import Type, { type Static } from "typebox";
import {
  Closed,
  described,
  Id,
  Integer,
  nullable,
  PageOf,
  paging,
  Shape,
  Text,
  Timestamp,
} from "../../platform/http/wire.ts";

export const groupings = ["target", "tag", "page"] as const;
export type Grouping = (typeof groupings)[number];

const day = (description: string, example: string) =>
  Type.Optional(
    Type.String({
      pattern: "^\\d{4}-\\d{2}-\\d{2}(T\\d{2}:\\d{2}:\\d{2}(\\.\\d{1,9})?(Z|[+-]\\d{2}:\\d{2}))?$",
      maxLength: 40,
      expects: "Use a day like 2026-11-01, or a time like 2026-11-01T00:00:00Z",
      description,
      examples: [example],
    }),
  );

export const UptimeQuery = Closed({
  from: day(
    "First day (`2026-11-01`) in the organisation's zone, or a time (RFC 3339). When left out: the start of the " +
      "month of `to`",
    "2026-11-01",
  ),
  to: day(
    "Last day in the organisation's zone, included, or a time (RFC 3339), not included. When left out: now",
    "2026-11-20",
  ),
  group_by: Type.Enum([...groupings], {
    default: "target",
    description: "What a row is about",
    examples: ["target"],
  }),
  format: Type.Enum(["json", "csv"], {
    default: "json",
    description: "`csv` has all rows, whatever `limit` and `offset` say",
    examples: ["json"],
  }),
  ...paging(50, 1000),
});
export type UptimeQuery = Static<typeof UptimeQuery>;

export const UptimeRow = Shape(
  "UptimeRow",
  "Sums of a target, or of all targets of a tag or status page: times of several add up",
  {
    id: nullable(described(Id, "Id of the target or status page; null for a tag")),
    name: Text("Name of the target, tag or status page", "Shop"),
    uptime_pct: nullable(
      described(
        Type.Number(),
        "Share of the checked time outside of maintenance without a confirmed outage, as on status pages; four " +
          "decimals, rounded down. Null where nothing was measured",
        99.9771,
      ),
    ),
    checks: Integer("Runs, imported ones included", 28_794),
    downtime_secs: nullable(Integer("Confirmed outages outside of maintenance. Null where nothing was measured", 600)),
    incidents: Integer("Incidents that began in the range", 2),
    mttr_secs: nullable(Integer("Mean time of outage of those that ended; null while none has", 300)),
    maintenance_secs: Integer("Time in maintenance windows", 7200),
    gaps: Type.Array(
      Closed({
        from: described(Timestamp, "Start, included"),
        to: described(Timestamp, "End, not included"),
      }),
      {
        description:
          "Times of the range in which nothing was checked, also before the first check: whole UTC days, and the " +
          "hours before the first and after the last check; for heartbeats, when none was expected. The longest 200",
      },
    ),
  },
);
export type UptimeRow = Static<typeof UptimeRow>;

const { properties, ...page } = PageOf(UptimeRow);
export const UptimePage = Type.Object(
  {
    ...properties,
    until: described(
      Timestamp,
      "End of what the rows are about: that of the range, at most now; with more than 1,000 monitors at most that of " +
        "the last hour that is summed up",
    ),
  },
  page,
);
