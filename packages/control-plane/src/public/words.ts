import { day, duration, list, plural } from "../html/format.ts";
import { html, type Markup } from "../html/markup.ts";
import { state } from "../html/views.ts";
import type { PublicComponent, PublicIncident, PublicStatus } from "./schema.ts";
import type { ComponentState, DayCell } from "./states.ts";

/** Icon, colour, cell and label of each state. */
const looks: Record<ComponentState, { tone: string; cell: string; word: string }> = {
  operational: { tone: "up", cell: "up", word: "Operational" },
  degraded: { tone: "degraded", cell: "degraded", word: "Degraded" },
  partial_outage: { tone: "down", cell: "partial", word: "Partial outage" },
  major_outage: { tone: "down", cell: "down", word: "Major outage" },
  maintenance: { tone: "maintenance", cell: "maintenance", word: "Maintenance" },
  no_data: { tone: "unknown", cell: "none", word: "No data" },
};

/** The colour family of a state: up, degraded, down, maintenance or unknown. */
export const tone = (of: ComponentState): string => looks[of].tone;

/** A state as icon and word. */
export const stateMark = (of: ComponentState): Markup => state(looks[of].tone, looks[of].word);

/** `20 Nov 2026: Partial outage, down 38 min`. */
function dayTitle(cell: DayCell): string {
  return `${day(new Date(cell.date))}: ${looks[cell.state].word}${cell.downtime_secs === 0 ? "" : `, down ${duration(cell.downtime_secs)}`}`;
}

/** The days of a component as a row of cells, oldest first, each with its title. Paths keep 90 cells per component small. */
export function dayStrip(component: PublicComponent): Markup {
  const cells = component.history.map(
    (cell, at) =>
      html`<path class="c-${looks[cell.state].cell}" d="M${at * 8} 0h6v28h-6z"><title>${dayTitle(cell)}</title></path>`,
  );
  const box = html`viewBox="0 0 ${component.history.length * 8 - 2} 28" preserveAspectRatio="none"`;
  return html`<svg class="strip" ${box} role="img" aria-label="${stripWords(component)}">${cells}</svg>`;
}

/** Text alternative of the strip. */
function stripWords(component: PublicComponent): string {
  const counted = (["major_outage", "partial_outage", "degraded", "maintenance", "no_data"] as const).flatMap((of) => {
    const days = component.history.filter((cell) => cell.state === of).length;
    return days === 0 ? [] : [`${looks[of].word.toLowerCase()} on ${plural(days, "day")}`];
  });
  return `Last ${component.history.length} days: ${counted.length === 0 ? "operational" : counted.join(", ")}`;
}

/** The affected components, followed by "since" and the time in the view. Null without an open incident. */
export function affected(incidents: readonly PublicIncident[]): { sentence: string; since: string } | null {
  if (incidents.length === 0) return null;
  const names = [...new Set(incidents.map((incident) => incident.component.name))];
  const shown = names.length > 3 ? [...names.slice(0, 2), plural(names.length - 2, "more component")] : names;
  return {
    sentence: `${list(shown)} ${names.length === 1 ? "has" : "have"} been affected`,
    since: incidents.map((incident) => incident.started_at).sort()[0]!,
  };
}

/** The line under the banner while every component is operational. */
export function calmSentence(status: PublicStatus, components: readonly PublicComponent[]): string {
  if (status.overall.state === "no_data") return "No recent data.";
  const silent = components.filter((component) => component.status === "no_data").length;
  const working = components.length - silent;
  const found = `${plural(working, "component")} ${working === 1 ? "works" : "work"}`;
  return silent === 0 ? `${found}.` : `${found}, ${silent} without recent data.`;
}

/** A state in the middle of a sentence. */
export const stateWord = (of: ComponentState): string => looks[of].word.toLowerCase();
