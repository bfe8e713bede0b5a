import { makeBadge } from "badge-maker";
import type { PublicStatus } from "./schema.ts";
import type { ComponentState } from "./states.ts";
import { type Language, stateInSentence, textsOf } from "./texts.ts";

/** Background of each state: white text on it has a contrast of at least 4.5:1 (WCAG 2.2, 1.4.3). */
const colors: Record<ComponentState, string> = {
  operational: "#0f7b4f",
  degraded: "#8a5a00",
  partial_outage: "#b3441e",
  major_outage: "#b3261e",
  maintenance: "#1f5fbf",
  no_data: "#5b6472",
};

const maxLabelLength = 60;

/** The badge of a whole page: `status | All Systems Operational`. SVG with an accessible title. */
export const pageBadge = ({ overall }: PublicStatus): string => svg("status", overall.label, overall.state);

/** The badge of one component: `Checkout | operational`. */
export const componentBadge = (
  { name, status }: { name: string; status: ComponentState },
  language: Language,
): string => svg(name, stateInSentence(textsOf(language), status), status);

function svg(text: string, message: string, state: ComponentState): string {
  // Control, format and bidirectional characters would change what stands around the text.
  const label = [...text.replaceAll(/\p{C}/gu, "").trim()].slice(0, maxLabelLength).join("");
  return makeBadge({ label, message, color: colors[state], style: "flat" });
}
