import type { ReportedComponents, ReportedState } from "@statusmesh/shared/checks/status-page";
import { asObject, isObject, type Json } from "@statusmesh/shared/json";
import { clean } from "../../run/verdicts.ts";

/*
 * JSON of status pages, recognised by its shape. Sources: developer pages of Statuspage (metastatuspage.com/api),
 * incident.io, Instatus (/summary.json, /v2/components.json) and Better Stack (/index.json); Uptime Kuma
 * (server/routers/status-page-router.js); Cachet 2 and 3 (/api/v1/components, /api/components).
 */

export interface ReportedPage {
  /** Null where the document has none. */
  name: string | null;
  state: ReportedState;
  /** In the words of the page; null where it has none. */
  description: string | null;
  /** Components without headings of groups; null where another document has them. */
  components: ReportedComponents | null;
  /** Path below the page of the document with the components, where they are in another one. */
  more: string | null;
}

/** Components that are read of a page. */
const maxComponents = 500;
const maxText = 200;

const textOf = (value: unknown): string | null =>
  typeof value === "string" && value.trim() !== "" ? clean(value.trim(), maxText) : null;
const listOf = (value: unknown): Json[] => (Array.isArray(value) ? value.slice(0, 5000).filter(isObject) : []);

/** States of all products; upper case and separators do not count. */
const words: Readonly<Record<string, ReportedState>> = {
  none: "up",
  up: "up",
  operational: "up",
  minor: "degraded",
  degraded: "degraded",
  degradedperformance: "degraded",
  performanceissues: "degraded",
  partial: "degraded",
  partialoutage: "degraded",
  minoroutage: "degraded",
  hasissues: "degraded",
  major: "down",
  critical: "down",
  majoroutage: "down",
  fulloutage: "down",
  downtime: "down",
  down: "down",
  maintenance: "maintenance",
  undermaintenance: "maintenance",
  maintenanceinprogress: "maintenance",
};

function stateOf(value: unknown): ReportedState {
  const word = typeof value === "string" ? value.slice(0, 40).toLowerCase().replaceAll(/[ _-]/g, "") : "";
  return Object.hasOwn(words, word) ? words[word]! : "unknown";
}

const severity: readonly ReportedState[] = ["unknown", "up", "maintenance", "degraded", "down"];
export const worst = (states: readonly ReportedState[]): ReportedState =>
  states.reduce((a, b) => (severity.indexOf(b) > severity.indexOf(a) ? b : a), "unknown" as ReportedState);

/** The state of a page that says none: down where all components are, degraded where some are not up. */
function overall(components: ReportedComponents): ReportedState {
  const known = components.filter(({ state }) => state !== "unknown");
  const state = worst(known.map((one) => one.state));
  return state === "down" && known.some((one) => one.state !== "down") ? "degraded" : state;
}

function componentsOf(
  items: readonly Json[],
  read: (item: Json) => { id: unknown; name: unknown; state: ReportedState },
) {
  const components: ReportedComponents = [];
  for (const item of items) {
    const { id, name: given, state } = read(item);
    const name = textOf(given);
    if (name === null) continue;
    const key = typeof id === "number" ? String(id) : (textOf(id) ?? name);
    if (components.push({ id: key, name, state }) === maxComponents) break;
  }
  return components;
}

/** Statuspage, and products in its shape: /api/v2/summary.json, status.json and components.json. */
function statuspage(document: Json): ReportedPage | null {
  const { page, status, components } = document;
  const { indicator, description } = asObject(status);
  const isComponents = isObject(page) && "id" in page && Array.isArray(components);
  if (!isObject(page) || (typeof indicator !== "string" && !isComponents)) return null;
  const items = Array.isArray(components)
    ? componentsOf(
        listOf(components).filter(({ group }) => group !== true),
        ({ id, name, status: own }) => ({ id, name, state: stateOf(own) }),
      )
    : null;
  return {
    name: textOf(page["name"]),
    state: typeof indicator === "string" ? stateOf(indicator) : overall(items ?? []),
    description: textOf(description),
    components: items,
    more: items === null ? "/api/v2/components.json" : null,
  };
}

/** incident.io: /api/v1/summary has the incidents and components that are affected. */
function incidentIo({ page_title: title, ongoing_incidents: ongoing, in_progress_maintenances: works }: Json) {
  if (typeof title !== "string" || !Array.isArray(ongoing)) return null;
  const incidents = listOf(ongoing);
  const affected = incidents.flatMap(({ affected_components: list }) => listOf(list));
  const states = incidents.map(({ current_worst_impact: impact }) => stateOf(impact));
  const state = states.length > 0 ? worst(states) : listOf(works).length > 0 ? "maintenance" : "up";
  return {
    name: textOf(title),
    state: states.length > 0 && state === "unknown" ? ("degraded" as const) : state,
    description: textOf(incidents[0]?.["name"]),
    components: componentsOf(affected, ({ id, name, current_status: own }) => ({ id, name, state: stateOf(own) })),
    more: null,
  };
}

/** Instatus: /summary.json; its components are in /v2/components.json. */
function instatus(document: Json): ReportedPage | null {
  const { status, name } = asObject(document["page"]);
  if (status !== "UP" && status !== "HASISSUES" && status !== "UNDERMAINTENANCE") return null;
  const incidents = listOf(document["activeIncidents"]);
  const impact = worst(incidents.map((one) => stateOf(one["impact"])));
  return {
    name: textOf(name),
    state: status === "HASISSUES" && impact === "down" ? "down" : stateOf(status),
    description: textOf(incidents[0]?.["name"] ?? listOf(document["activeMaintenances"])[0]?.["name"]),
    components: null,
    more: "/v2/components.json",
  };
}

/** A list of components alone. */
function componentList({ components, page }: Json): ReportedPage | null {
  if (page !== undefined || !Array.isArray(components)) return null;
  const items = componentsOf(listOf(components), ({ id, name, status }) => ({ id, name, state: stateOf(status) }));
  if (items.every(({ state }) => state === "unknown")) return null;
  return { name: null, state: overall(items), description: null, components: items, more: null };
}

/** Better Stack: /index.json, a JSON:API document. */
function betterStack(document: Json): ReportedPage | null {
  const { type, attributes } = asObject(document["data"]);
  const { aggregate_state: state, company_name: name, announcement } = asObject(attributes);
  if (type !== "status_page" || typeof state !== "string") return null;
  const resources = listOf(document["included"]).filter((item) => item["type"] === "status_page_resource");
  return {
    name: textOf(name),
    state: stateOf(state),
    description: textOf(announcement),
    components: componentsOf(resources, ({ id, attributes: own }) => {
      const { public_name: shown, status } = asObject(own);
      return { id, name: shown, state: stateOf(status) };
    }),
    more: null,
  };
}

/** StatusMesh: /api/public/v1/status. */
function statusMesh(document: Json): ReportedPage | null {
  const { state, label } = asObject(document["overall"]);
  if (typeof state !== "string" || !Array.isArray(document["groups"])) return null;
  const items = listOf(document["groups"]).flatMap(({ components }) => listOf(components));
  return {
    name: textOf(asObject(document["page"])["name"]),
    state: stateOf(state),
    description: textOf(label),
    components: componentsOf(items, ({ id, name, status }) => ({ id, name, state: stateOf(status) })),
    more: null,
  };
}

/** Uptime Kuma: /api/status-page/{slug}; states of its monitors are in {@link withHeartbeats}. */
function kuma(document: Json): ReportedPage | null {
  const { slug, title } = asObject(document["config"]);
  if (typeof slug !== "string" || !/^[\w-]{1,100}$/.test(slug) || !Array.isArray(document["publicGroupList"]))
    return null;
  const monitors = listOf(document["publicGroupList"]).flatMap(({ monitorList }) => listOf(monitorList));
  return {
    name: textOf(title),
    state: "unknown",
    description: null,
    components: componentsOf(monitors, ({ id, name }) => ({ id, name, state: "unknown" })),
    more: `/api/status-page/heartbeat/${slug}`,
  };
}

/** Kuma's numbers. Pending says nothing. */
const kumaStates: readonly ReportedState[] = ["down", "up", "unknown", "maintenance"];

function withHeartbeats(page: ReportedPage, list: Json): ReportedPage {
  const components = (page.components ?? []).map((one) => {
    const last = Object.hasOwn(list, one.id) ? listOf(list[one.id]).at(-1)?.["status"] : undefined;
    return { ...one, state: (typeof last === "number" && kumaStates[last]) || "unknown" };
  });
  return { ...page, components, state: overall(components), more: null };
}

/** Cachet: numbers of version 2, a number or an enumeration of version 3. */
const cachetStates: readonly ReportedState[] = ["unknown", "up", "degraded", "degraded", "down"];

function cachet(document: Json): ReportedPage | null {
  const { data } = document;
  if (!Array.isArray(data)) return null;
  const items = listOf(data).filter(
    (item) =>
      ("status" in item && "status_name" in item) || (item["type"] === "components" && isObject(item["attributes"])),
  );
  if (items.length === 0 || items.length < Math.min(data.length, 5000)) return null;
  const components = componentsOf(items, (item) => {
    const { id = item["id"], name, status } = { ...item, ...asObject(item["attributes"]) } as Json;
    const { value, human } = asObject(status);
    const number = Number(isObject(status) ? value : status);
    return { id, name, state: cachetStates[number] ?? stateOf(human ?? value) };
  });
  return { name: null, state: overall(components), description: null, components, more: null };
}

const forms = [statuspage, instatus, betterStack, statusMesh, kuma, incidentIo, cachet, componentList];

/** What a document reports; null for one of no known product. */
export function recognised(document: unknown): ReportedPage | null {
  if (!isObject(document)) return null;
  for (const form of forms) {
    const page = form(document);
    if (page !== null) return page;
  }
  return null;
}

/** The page with what its second document says; as it was where that has another form. */
export function withMore(page: ReportedPage, document: unknown): ReportedPage {
  const { heartbeatList } = asObject(document);
  if (isObject(heartbeatList)) return withHeartbeats(page, heartbeatList);
  const components = recognised(document)?.components ?? null;
  return components === null ? page : { ...page, components, more: null };
}
