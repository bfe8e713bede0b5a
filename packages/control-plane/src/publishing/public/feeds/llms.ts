import type { ServedStatus } from "../page/compute.ts";
import { componentsOf } from "../service.ts";

/** Incidents and components that are listed; the JSON has all of them. */
const most = 50;

/** Address of the public JSON of a page: of its host, or below a page that the path names. */
const dataUrl = (pageUrl: string): string => `${pageUrl.replace(/\/status$/, "")}/api/public/v1`;

/**
 * The page for language models, as https://llmstxt.org describes it: what it is, how things are, where the data is.
 * `pageUrl` is the address of the page, without a slash at its end.
 */
export function llmsText({ status, entries }: ServedStatus, pageUrl: string): string {
  const { page, overall, generated_at, upcoming_maintenance } = status;
  const api = dataUrl(pageUrl);
  const section = (title: string, lines: string[]) => (lines.length === 0 ? [] : [`## ${title}`, "", ...lines, ""]);
  return [
    `# ${line(page.name)}`,
    "",
    `> Status page: ${overall.label} (${overall.state}) at ${generated_at}. All times are UTC.`,
    "",
    ...section(
      "Open incidents",
      entries
        .filter(({ state }) => state === "open")
        .slice(0, most)
        .map(({ id, title, components, status: state, started_at: since }) => {
          const names = components.slice(0, most).map(({ name }) => name);
          return `- [${line(title)}](${pageUrl}/incidents/${id}): ${line(names.join(", "))}, ${state}, since ${since}`;
        }),
    ),
    ...section(
      "Components",
      componentsOf(status)
        .slice(0, most)
        .map(({ name, status: state }) => `- ${line(name)}: ${state}`),
    ),
    ...section(
      "Scheduled maintenance",
      upcoming_maintenance.map(
        ({ title, later, ...next }) => `- ${line(title)}: ${[next, ...later].map(timesText).join(", ")}`,
      ),
    ),
    "## Data",
    "",
    `- [Status](${api}/status): the whole page as JSON, with 90 days of history per component`,
    `- [Incidents](${api}/incidents): incidents of the last 30 days as JSON`,
    `- [Feed](${api}/incidents.rss): incidents as RSS 2.0`,
    `- [Maintenance](${api}/maintenance): active and scheduled maintenance as JSON`,
    "",
  ].join("\n");
}

/** A text of the operators in one line, without what Markdown would read as a link, a heading or HTML. */
const line = (text: string): string =>
  text
    .replaceAll(/[\p{C}\s]+/gu, " ")
    .slice(0, 300)
    .replaceAll(/[\\`*_[\]#|]/g, "\\$&")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .trim();

const timesText = ({ starts_at, ends_at }: { starts_at: string; ends_at: string }): string =>
  `${starts_at} to ${ends_at}`;
