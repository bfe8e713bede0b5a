import { fileURLToPath } from "node:url";
import { inUnits } from "@statusmesh/shared/time";
import { Eta } from "eta";
import { errorInWords } from "@statusmesh/shared/checks";
import { markdownHtml } from "./markdown.ts";
import type { Assets } from "./assets.ts";
import * as charts from "./charts.ts";
import { field, options } from "./fields.ts";
import * as format from "./format.ts";
import { type Icon, icon, isIcon, mark, markInDots } from "./icons.ts";
import { escapeHtml, html, Markup } from "./markup.ts";
import { type StateName, stateWords } from "./format.ts";

/** Folder of the views, relative to the compiled file. */
export const viewsFolder = fileURLToPath(new URL("../../../views", import.meta.url));

/** Renders the files of `views/`. */
export interface Views {
  /** A view by its path without ending: `targets/list`. `now` (Unix ms) is what relative times count from. */
  render(name: string, data: object, now: number): string;
}

export interface ViewOptions {
  assets: Assets;
  folder?: string;
  /** False reads every file anew at each rendering, for work on the templates. */
  cache?: boolean;
}

/**
 * Opens the views. Inside a template `it` is the data, and `h` has the helpers: `h.asset(name)`, `h.icon(name)`,
 * `h.time(at, style)`, `h.state(state, word)`, `h.error(error)`, the formats and the charts. Everything printed is
 * escaped unless a helper made it.
 */
export function openViews({ assets, folder = viewsFolder, cache = true }: ViewOptions): Views {
  const eta = new Eta({
    views: folder,
    cache,
    autoEscape: true,
    rmWhitespace: true,
    // The line break after a tag separates words as it does after an element.
    autoTrim: false,
    escapeFunction: escapeHtml,
    functionHeader: "const h = it.h;",
  });
  // The rows of a page are rendered with the same time, one after the other.
  let latest = helpers(assets, 0);
  return {
    render(name, data, now) {
      if (latest.now !== now) latest = helpers(assets, now);
      return eta.render(`/${name}`, { ...data, h: latest }).trimStart();
    },
  };
}

/** `due` is for a planned time: `in 20 s`, and `due now` once it has passed. */
export type TimeStyle = "ago" | "clock" | "day" | "due" | "hour";

/** `h` of the templates. @public */
export type Helpers = ReturnType<typeof helpers>;

const helpers = (assets: Assets, now: number) => ({
  ...format,
  ...charts,
  field,
  options,
  now,
  asset: (name: string) => assets.url(name),
  /** The imports of `console.js`, so that a page requests all of them at once. */
  modules: assets.modules("console.js"),
  icon: (name: string) => (isIcon(name) ? icon(name) : new Markup("")),
  markdown: markdownHtml,
  mark,
  tag,
  markInDots,
  state,
  heads,
  /** Text that only a screen reader reads. */
  hidden: (text: string) => html`<span class="sr">${text}</span>`,
  pill: (name: string, word?: string) => state(name, word, "pill"),
  /** The mark of a critical incident. */
  critical: () => html`<span class="badge critical">Critical</span>`,
  /** `2 causes need you`: the number that the head, the badge, On call, the wall and the title of a tab have. */
  needsYou: (causes: number) => `${format.plural(causes, "cause")} ${causes === 1 ? "needs" : "need"} you`,
  stateWords,
  /** Options of a select, for the tags of monitors and how many each has. */
  tagOptions: (tags: readonly { name: string; count: number }[]) =>
    tags.map(({ name, count }) => [name, `${name} (${format.number(count)})`] as const),
  /** ` checked`: an attribute without a value, where `on` is true. */
  flag: (name: string, on: unknown) => new Markup(on ? ` ${name}` : ""),
  /** Milliseconds as a form shows them: `10 min`; empty for none. */
  units: (ms: number | null) => (ms === null ? "" : inUnits(ms)),
  /** Attributes of an alternative of a form that is not chosen. */
  hiddenUnless: (chosen: boolean) => new Markup(chosen ? "" : " hidden disabled"),
  /** The attribute of the chosen link among several. */
  current: (chosen: boolean) => new Markup(chosen ? ' aria-current="true"' : ""),
  /** A value and what replaced it. */
  replaced: (was: string | null, is: string | null) => html`<del>${was}</del> → <ins>${is}</ins>`,
  /** The error of a result or an incident as people read it. Null stays null. */
  error: (error: string | null) => (error === null ? null : errorInWords(error)),
  /** `Connection refused.`, or nothing. */
  errorSentence: (error: string | null) =>
    error === null ? "" : `${format.capital(errorInWords(error).replace(/\.$/, ""))}.`,
  time: (at: Date | string | number | null, style: TimeStyle = "ago") => timeTag(at, style, now),
  clock: (at: Date | string | number) => format.clock(new Date(at), now),
  /** `2 h`: how long something has lasted, short. */
  since: (at: Date | string | number) => format.brief((now - new Date(at).getTime()) / 1000),
  /** How long an incident has failed. */
  outage: (of: Parameters<typeof format.outageSecs>[0]) => format.duration(format.outageSecs(of, now)),
  /** How long something that began at `at` has lasted. */
  lasted: (at: Date | string | number, until: Date | string | number | null = null) =>
    format.duration(((until === null ? now : new Date(until).getTime()) - new Date(at).getTime()) / 1000),
});

/** A state as icon and word, in its colour; as a `pill`, on its ground. */
export function state(name: string, word: string = stateWords[name as StateName], as = "state"): Markup {
  const shape: Icon = isIcon(name) ? name : "unknown";
  return html`<span class="${as} ${name}">${icon(shape)}${word}</span>`;
}

/** The head of a table: a label for each column, or its label and class. Without either the column is left out. */
function heads(...columns: (string | Markup | readonly [label: string, style: string] | false | undefined)[]): Markup {
  const cells = columns
    .filter((column) => column !== false && column !== undefined)
    .map((column) =>
      Array.isArray(column)
        ? html`<th scope="col" class="${column[1]}">${column[0]}</th>`
        : html`<th scope="col">${column}</th>`,
    );
  return html`<thead><tr>${cells}</tr></thead>`;
}

/** Where the hash of tags begins: production, staging, web, api, database and regions get looks of their own. */
const tagSeed = 38_859;

/** A tag with a dot or a ring in one of eight hues, always the same one for the same name. */
function tag(name: string): Markup {
  let sum = tagSeed;
  for (const letter of name) sum = (sum * 31 + letter.codePointAt(0)!) % 65_521;
  return html`<span class="tag t${(sum % 8) + 1}${sum % 16 < 8 ? "" : " ring"}">${name}</span>`;
}

/** A time in UTC that the reader's browser rewrites for the reader's zone; the full time is its title. */
export function timeTag(at: Date | string | number | null, style: TimeStyle, now: number): Markup {
  if (at === null) return new Markup(format.none);
  const date = new Date(at);
  const text =
    style === "ago"
      ? format.ago(date.getTime(), now)
      : style === "due"
        ? format.due(date.getTime(), now)
        : style === "clock"
          ? `${format.clock(date, now)} UTC`
          : style === "hour"
            ? `${date.toISOString().slice(11, 16)} UTC`
            : format.day(date);
  const title = format.absolute(date);
  return html`<time datetime="${date.toISOString()}" data-as="${style}" title="${title}">${text}</time>`;
}
