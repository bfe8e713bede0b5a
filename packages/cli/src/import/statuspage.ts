import { Draft, type Imported } from "./draft.ts";
import { flag, number, type Row, row, text } from "./values.ts";

export interface StatuspageData {
  readonly page: Row;
  readonly components: readonly Row[];
  readonly incidents: readonly Row[];
  readonly subscribers: readonly Row[];
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
  { page, components, incidents, subscribers }: StatuspageData,
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
  draft.page(item, {
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
  for (const subscriber of subscribers) {
    const mode = text(subscriber["mode"]) || "unknown";
    // Addresses are personal: the report names none.
    const listed = draft.item("subscriber", `${mode} ${text(row(subscriber)["id"])}`);
    if (mode === "email" || mode === "webhook")
      listed.refuse(
        "send the confirmed ones to POST /api/v1/status-pages/{id}/subscribers/import: they confirm nothing again",
        "silent",
      );
    else listed.refuse(`there are no subscriptions by ${mode.slice(0, 20)}`, "silent");
  }
  return draft.finish();
}

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
