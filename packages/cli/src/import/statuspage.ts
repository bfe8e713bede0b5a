import { Draft, type Imported } from "./draft.ts";
import type { Subscriber } from "./history.ts";
import { flag, line, list, number, type Row, row, text } from "@statusmesh/shared/foreign/values";

export interface StatuspageData {
  readonly page: Row;
  readonly components: readonly Row[];
  readonly incidents: readonly Row[];
  readonly subscribers: readonly Row[];
  /** True where `--history` is written, which has the subscribers. */
  readonly history: boolean;
}

/** States there, by their words here. */
const states: Readonly<Record<string, string>> = {
  operational: "operational",
  degraded_performance: "degraded",
  partial_outage: "partial_outage",
  major_outage: "major_outage",
  under_maintenance: "maintenance",
};

/** A page of Statuspage. Its components have no monitors: their states are set manually or by programs, as there. */
export function importStatuspage(
  { page, components, incidents, subscribers, history }: StatuspageData,
  project: string,
): Imported {
  const draft = new Draft("Statuspage", project);
  const item = draft.item("status page", page["name"]);
  if (text(page["domain"]) !== "")
    item.note("its domain is not taken over: set custom_domain once its DNS record can be changed");
  const groups = new Map(
    components.filter((one) => flag(one["group"])).map((one) => [text(one["id"]), text(one["name"])]),
  );
  const placeOf = placesOn(components);
  const shown = components.filter((one) => !flag(one["group"])).sort((a, b) => placeOf(a) - placeOf(b));
  for (const component of components.filter((one) => flag(one["group"])))
    draft.item("component", component["name"]).note("a group: its components have its name as their group", "detail");
  for (const component of shown) {
    const listed = draft.item("component", component["name"]);
    if (!Object.hasOwn(states, text(component["status"])))
      listed.note("its state is unknown: it begins as operational");
    if (flag(component["only_show_if_degraded"])) listed.note("is always shown: pages hide no components", "behaviour");
    listed.note(
      "its state is set manually or by PATCH /api/v1/status-pages/{id}/components/{id}: adapt programs that set it",
      "behaviour",
    );
  }
  const pageKey = draft.page(item, {
    slug: text(page["subdomain"]).toLowerCase(),
    name: page["name"],
    about: page["page_description"],
    components: shown.map((component) => ({
      name: text(component["name"]),
      description: text(component["description"]),
      group: groups.get(text(component["group_id"])) ?? null,
      state: states[text(component["status"])] ?? "operational",
    })),
  });
  for (const incident of incidents) {
    const isPlanned = text(incident["scheduled_for"]) !== "";
    const isOpen = !["resolved", "completed", "postmortem"].includes(text(incident["status"]));
    draft
      .item(isPlanned ? "maintenance" : "incident", incident["name"])
      .refuse(
        isPlanned
          ? "a window is of monitors, and these components have none: set them to maintenance while it lasts"
          : "incidents belong to monitors, and these components have none: their states are their history",
        isOpen ? "silent" : "detail",
      );
  }
  const placeIn = (component: Row) => ({
    name: line(component["name"], 200) || "Component",
    group: line(groups.get(text(component["group_id"])) ?? "", 80) || null,
  });
  const moved: Subscriber[] = [];
  for (const subscriber of subscribers) {
    const mode = text(subscriber["mode"]) || "unknown";
    // Addresses are personal: the report names none.
    const listed = draft.item("subscriber", `${mode} ${text(subscriber["id"])}`);
    if (mode !== "email" && mode !== "webhook") {
      listed.refuse(`there are no subscriptions by ${mode.slice(0, 20)}`, "silent");
      continue;
    }
    if (text(subscriber["quarantined_at"]) !== "") {
      listed.refuse("Statuspage has stopped sending to it, because messages came back", "detail");
      continue;
    }
    if (!history) {
      listed.refuse("subscribers are carried over with --history, by smctl history after the apply", "silent");
      continue;
    }
    listed.note("smctl history adds it after the apply: nothing is to be confirmed again", "silent");
    const ids = new Set(idsOf(subscriber["components"]));
    const chosen = shown.filter((one) => ids.has(text(one["id"])) || ids.has(text(one["group_id"])));
    moved.push({
      ...(mode === "email" ? { email: text(subscriber["email"]) } : { webhook_url: text(subscriber["endpoint"]) }),
      components: ids.size === 0 ? null : chosen.map(placeIn),
    });
  }
  draft.subscribers(pageKey, moved);
  return draft.finish();
}

/** Components that a subscriber chose: ids, or objects with ids. */
const idsOf = (value: unknown): string[] =>
  list(value).map((one) => text(typeof one === "object" ? row(one)["id"] : one));

/** Places of components on the page: that of the group, then their own. Positions begin at 1. */
function placesOn(components: readonly Row[]): (component: Row) => number {
  const positionOf = (component: Row): number => number(component["position"], 0);
  const groups = new Map(
    components.filter((one) => flag(one["group"])).map((one) => [text(one["id"]), positionOf(one)]),
  );
  return (component) => {
    const group = groups.get(text(component["group_id"]));
    return group === undefined ? 10_000 * positionOf(component) : 10_000 * group + positionOf(component);
  };
}
