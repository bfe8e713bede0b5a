import { Draft, type Imported } from "./draft.ts";
import { flag, type Row, row, text } from "./values.ts";

export interface StatuspageData {
  readonly page: Row;
  readonly components: readonly Row[];
  readonly incidents: readonly Row[];
  readonly subscribers: readonly Row[];
}

/** A page of Statuspage. Its components have no monitors, which those of a page here show. */
export function importStatuspage(
  { page, components, incidents, subscribers }: StatuspageData,
  project: string,
): Imported {
  const draft = new Draft("Statuspage", project);
  const item = draft.item("status page", page["name"]);
  if (text(page["domain"]) !== "")
    item.note("its domain is not taken over: set custom_domain once its DNS record can be changed");
  for (const component of components)
    draft
      .item("component", component["name"])
      .refuse(
        flag(component["group"])
          ? "a group: give its name as public_group to the components of a page"
          : "a component shows a monitor here: add one for it, and put it on the page",
        flag(component["group"]) ? "detail" : "silent",
      );
  draft.page(item, {
    slug: text(page["subdomain"]).toLowerCase(),
    name: page["name"],
    about: page["page_description"],
    components: [],
  });
  for (const incident of incidents) {
    const isPlanned = text(incident["scheduled_for"]) !== "";
    const isOpen = !["resolved", "completed", "postmortem"].includes(text(incident["status"]));
    draft
      .item(isPlanned ? "maintenance" : "incident", incident["name"])
      .refuse(
        isPlanned
          ? "a window is of monitors, and these components have none: add it once they have"
          : "past incidents belong to monitors, and these components have none",
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
