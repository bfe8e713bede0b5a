import { dayMs } from "@statusmesh/shared/time";
import { heartbeat, Secret } from "@statusmesh/shared/foreign/check";
import { Draft, type Imported } from "./draft.ts";
import { flag, number, type Row, text } from "@statusmesh/shared/foreign/values";
import { zoneName } from "@statusmesh/shared/zoned";

export interface HealthchecksData {
  readonly checks: readonly Row[];
  readonly channels: readonly Row[];
}

const filters = ["subject", "subject_fail", "success_kw", "failure_kw", "start_kw", "filter_subject", "filter_body"];

/** Checks of healthchecks.io or of an own installation, as API v3 lists them. */
export function importHealthchecks({ checks, channels }: HealthchecksData, project: string): Imported {
  const draft = new Draft("healthchecks", project);
  for (const channel of channels)
    draft
      .item("channel", `${text(channel["name"]) || text(channel["id"])} (${text(channel["kind"])})`)
      .refuse("the API shows the names of integrations only: make the channel, and choose it as default", "silent");
  for (const check of checks) {
    const item = draft.item("monitor", text(check["name"]) || text(check["slug"]) || text(check["uuid"]));
    const uuid = text(check["uuid"]) || (/([0-9a-f-]{36})(?:$|\/)/i.exec(text(check["ping_url"]))?.[1] ?? "");
    const isUuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(uuid);
    if (!isUuid) item.note("its ping address is not readable: give the job its new ping URL", "silent");
    const schedule = text(check["schedule"]);
    const isCron = /^(?:@(?:hourly|daily|weekly|monthly|yearly|annually|midnight)|\S+(?:\s+\S+){4})$/i.test(schedule);
    const zone = text(check["tz"]) || "UTC";
    if (schedule !== "" && (!isCron || schedule.includes("\n"))) {
      item.refuse("its schedule is an OnCalendar expression: write it as cron, or as a period");
      continue;
    }
    if (zoneName(zone) === null) {
      item.refuse(`its time zone ${zone.slice(0, 40)} is unknown`);
      continue;
    }
    if (filters.some((name) => text(check[name]) !== "" && check[name] !== false) || flag(check["filter_default_fail"]))
      item.note("mails and keywords are no pings: the job reports with requests", "silent");
    // With manual_resume a ping does not, there as here.
    if (check["status"] === "paused" && !flag(check["manual_resume"]))
      item.note("a ping does not wake it while it is paused", "detail");
    if (text(check["channels"]) !== "")
      item.note("its integrations are not readable: it notifies the default channels", "silent");
    const wanted = number(check["timeout"], 86_400) * 1000;
    const { type, period, grace } = heartbeat(wanted, number(check["grace"], 3600) * 1000);
    if (schedule === "" && wanted > 90 * dayMs) item.note("expected every 90 days, the longest period");
    draft.monitor(item, {
      name: item.name,
      check: {
        type,
        ...(schedule === "" ? { period } : { schedule: { cron: schedule.replaceAll(/\s+/g, " "), timezone: zone } }),
        grace,
        methods: text(check["methods"]).toUpperCase() === "POST" ? "post" : undefined,
      },
      enabled: check["status"] !== "paused",
      tags: text(check["tags"]).split(/\s+/),
      addresses: isUuid ? [{ kind: "healthchecks", value: new Secret(uuid) }] : [],
    });
  }
  return draft.finish();
}
