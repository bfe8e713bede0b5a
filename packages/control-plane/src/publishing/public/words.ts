import { LRUCache } from "lru-cache";
import { getOrMake } from "../../platform/caches.ts";
import { absolute, duration, outageSecs, percent } from "../../platform/html/format.ts";
import { html, type Markup } from "../../platform/html/markup.ts";
import { state } from "../../platform/html/views.ts";
import { markdownHtml } from "../../platform/html/markdown.ts";
import type { Entry } from "./page/entries.ts";
import type { PublicComponent, PublicStatus } from "./schema.ts";
import type { ComponentState } from "./page/states.ts";
import type { Language } from "../languages/schema.ts";
import { type Texts, textsOf } from "../languages/service.ts";

/** Colour family, cell and letter of each state; the letter stands for the state in `data-days` of a strip. */
const looks: Record<ComponentState, { tone: string; cell: string; letter: string }> = {
  operational: { tone: "up", cell: "up", letter: "o" },
  degraded: { tone: "degraded", cell: "degraded", letter: "d" },
  partial_outage: { tone: "down", cell: "partial", letter: "p" },
  major_outage: { tone: "down", cell: "down", letter: "m" },
  maintenance: { tone: "maintenance", cell: "maintenance", letter: "w" },
  no_data: { tone: "unknown", cell: "none", letter: "n" },
};

/** The colour family of a state: up, degraded, down, maintenance or unknown. */
const tone = (of: ComponentState): string => looks[of].tone;

/** Cell width and distance of the strip, in its own units. */
const cell = { step: 8, width: 6, height: 28 };

/** Names of a list in a sentence: a maintenance window may have 1,000 components. */
const mostListed = 20;

/** What the views of a page print: its texts, and times in its time zone. */
export class PageWords {
  readonly t: Texts["page"];
  readonly language: Language;
  /** Writing direction. */
  readonly dir: Texts["dir"];
  /** The comma of the script. */
  readonly comma: string;
  readonly #texts: Texts;
  readonly #decimal: string;
  readonly #timeZone: string;
  readonly #dated: boolean;
  readonly #strips = new WeakMap<PublicComponent, Markup>();
  readonly #clock: Intl.DateTimeFormat;
  readonly #date: Intl.DateTimeFormat;
  readonly #day: Intl.DateTimeFormat;
  readonly #dayKey: Intl.DateTimeFormat;
  readonly #dayName: Intl.DateTimeFormat;

  /** `dated`: every time has its date, for what is read at any time. */
  constructor(language: Language, timeZone: string, { dated = false } = {}) {
    this.#dated = dated;
    const texts = textsOf(language);
    const { locale } = texts;
    this.t = texts.page;
    this.#texts = texts;
    this.language = language;
    this.dir = texts.dir;
    this.comma = texts.dir === "rtl" ? "،" : ",";
    this.#decimal = new Intl.NumberFormat(locale).formatToParts(0.5).find(({ type }) => type === "decimal")!.value;
    this.#timeZone = timeZone;
    const format = (options: Intl.DateTimeFormatOptions, zone = timeZone) =>
      new Intl.DateTimeFormat(locale, { ...options, timeZone: zone });
    const minutes = { hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZoneName: "short" } as const;
    this.#clock = format(minutes);
    this.#date = format({ day: "numeric", month: "short", ...minutes });
    this.#day = format({ day: "numeric", month: "short", year: "numeric" }, "UTC");
    this.#dayKey = new Intl.DateTimeFormat("en-CA", { timeZone, dateStyle: "short" });
    this.#dayName = format({ day: "numeric", month: "long" });
  }

  readonly tone = tone;

  /** The name of the page's time zone. */
  get zone(): string {
    return this.#timeZone;
  }

  /** A state as icon and word. */
  mark = (of: ComponentState): Markup => state(looks[of].tone, this.t.state[of]);

  /** An open incident in the list of all of them. */
  ongoing = (of: ComponentState): Markup => state(looks[of].tone, this.t.ongoing);

  /** The day of a time in the page's zone: `2026-11-20`. */
  dayOf = (at: string | number): string => this.#dayKey.format(new Date(at));

  /** `20 November`, or `Today`. */
  dayName = (at: string | number, now: number): string =>
    !this.#dated && this.dayOf(at) === this.dayOf(now) ? this.t.today : this.#dayName.format(new Date(at));

  /** Below the name of a group: how many are affected, else how many there are and their mean uptime. */
  groupLine(components: readonly PublicComponent[]): string {
    const hit = components.filter(({ status }) => isAffected(status)).length;
    if (hit > 0) return this.t.groupAffected(hit, components.length);
    const known = components.flatMap(({ uptime_pct: pct }) => pct ?? []);
    const mean = known.reduce((sum, pct) => sum + pct, 0) / known.length;
    return this.t.groupFine(components.length, known.length === 0 ? null : this.#percent(mean));
  }

  /** The text of an operator, in Markdown. */
  markdown = markdownHtml;

  #percent = (pct: number): string => percent(pct).replace(".", this.#decimal);

  resolved = (): Markup => state("up", this.t.resolved);

  /**
   * A time in the page's zone that the visitor's browser rewrites for the visitor's zone; UTC is its title. `ago` is
   * for the recent past. `now`: Unix ms.
   */
  time(at: string | Date, now: number, style: "clock" | "ago" = "clock"): Markup {
    const date = new Date(at);
    const near = !this.#dated && Math.abs(now - date.getTime()) < 43_200_000;
    const text = (near ? this.#clock : this.#date).format(date);
    return html`<time datetime="${date.toISOString()}" data-as="${style}" title="${absolute(date)}">${text}</time>`;
  }

  /** `2 h 5 min`. */
  duration = (seconds: number): string => duration(seconds, this.#texts.units);

  /** How long something has lasted, in seconds of `now` (Unix ms). */
  lasted = (from: string, now: number): string => this.duration((now - Date.parse(from)) / 1000);

  /** How long an entry has failed until `now` (Unix ms). */
  outage = (entry: Entry, now: number): string => this.duration(outageSecs(entry, now));

  /** The components of an entry. */
  components = ({ components }: Entry): string => this.list(components.map(({ name }) => name));

  /** `reported`: the page leaves out incidents. */
  uptime = ({ uptime_pct: pct }: PublicComponent, reported: boolean): string =>
    pct === null ? this.t.noDataYet : (reported ? this.t.reported : this.t.uptime)(this.#percent(pct));

  /** `a, b and c`; of many items the first, and how many more there are. */
  list = (all: readonly string[]): string => {
    const items = all.length <= mostListed ? all : [...all.slice(0, mostListed), this.t.more(all.length - mostListed)];
    return items.length < 2
      ? (items[0] ?? "")
      : `${items.slice(0, -1).join(`${this.comma} `)} ${this.t.and} ${items.at(-1)!}`;
  };

  /**
   * The days of a component as one drawing, oldest first: one path per state, because 90 elements for each of 25
   * components are slow on a phone. `data-days` has a letter per day, the seconds of downtime behind it, and * for an
   * imported day.
   */
  strip(component: PublicComponent): Markup {
    return getOrMake(this.#strips, component, () => this.#drawn(component));
  }

  #drawn(component: PublicComponent): Markup {
    const { history } = component;
    const paths = Object.entries(looks).flatMap(([of, { cell: name }]) => {
      const d = history
        .map((day, at) => (day.state === of ? `M${at * cell.step} 0h${cell.width}v${cell.height}h-${cell.width}z` : ""))
        .join("");
      return d === "" ? [] : [html`<path class="${name}" d="${d}"/>`];
    });
    const days = history
      .map((day) => looks[day.state].letter + (day.downtime_secs || "") + (day.imported ? "*" : ""))
      .join("");
    const box = html`viewBox="0 0 ${history.length * cell.step - 2} ${cell.height}" preserveAspectRatio="none"`;
    const data = html`data-from="${history[0]?.date}" data-days="${days}"`;
    const label = `${this.t.lastDays(history.length)}: ${this.#summary(component)}`;
    const drawing = html`<svg class="strip" ${box} aria-hidden="true">${paths}</svg>`;
    return html`<div class="days" ${data} role="img" aria-label="${label}">${drawing}</div>`;
  }

  /** Text alternative of a strip: which states on how many days, and the days with an outage. */
  #summary({ history }: PublicComponent): string {
    const counted = (["major_outage", "partial_outage", "degraded", "maintenance", "no_data"] as const).flatMap(
      (of) => {
        const days = history.filter((day) => day.state === of).length;
        return days === 0 ? [] : [this.t.onDays(this.t.state[of], days)];
      },
    );
    const outages = history
      .filter((day) => day.downtime_secs > 0)
      .slice(-10)
      .map((day) => `${this.#day.format(new Date(day.date))}: ${this.t.down} ${this.duration(day.downtime_secs)}`);
    const imported = history.filter((day) => day.imported).length;
    const others = imported === 0 ? [] : [this.t.onDays(this.t.imported, imported)];
    return [counted.join(", ") || this.t.state.operational, ...others, ...outages].join("; ");
  }

  /** Texts that the script needs, by letter of the state. */
  scriptWords(): string {
    const states = Object.entries(looks).map(([of, { letter }]) => [letter, this.t.state[of as ComponentState]]);
    const { down, stale, refreshed, yourZone, keys, imported } = this.t;
    const [, hours, minutes] = this.#texts.units;
    const own = { down, stale, refreshed, yourZone, keys, imported, hours, minutes };
    return JSON.stringify({ ...Object.fromEntries(states), ...own });
  }
}

const pages = new LRUCache<string, PageWords>({ max: 100 });

/** The words of a language in a time zone. Formats of dates are expensive to make, so they are kept. */
export const wordsOf = ({ language, timezone }: { language: Language; timezone: string }): PageWords =>
  getOrMake<string, PageWords>(pages, `${language} ${timezone}`, () => new PageWords(language, timezone));

const isAffected = (state: ComponentState): boolean => !["operational", "no_data", "maintenance"].includes(state);

/** Characters of names below the banner: longer ones fill the screen of a phone. */
const maxNames = 120;

/** Components that are not as they should be, worst share first: "3 of 12 components affected: a, b and c". */
export function affectedSentence(components: readonly PublicComponent[], words: PageWords): string | null {
  const hit = components.filter(({ status }) => isAffected(status));
  if (hit.length === 0) return null;
  const share = words.t.affected(hit.length, components.length);
  const names = words.list(hit.map(({ name }) => name));
  return hit.length > 3 || names.length > maxNames ? share : `${share}: ${names}`;
}

/** Start of the oldest open entry of the page. Null without one. */
export const affectedSince = (entries: readonly Entry[]): string | null =>
  entries.map((entry) => entry.started_at).sort()[0] ?? null;

/** The line under the banner while no component is affected. */
export const calmSentence = (status: PublicStatus, components: readonly PublicComponent[], words: PageWords): string =>
  status.overall.state === "no_data" ? words.t.noData : workingLine(components, words);

/** How many components work, and how many have no recent data. */
export function workingLine(components: readonly PublicComponent[], { t }: PageWords): string {
  const silent = components.filter((component) => component.status === "no_data").length;
  const working = components.filter((component) => component.status === "operational").length;
  const found = t.working(working);
  return silent === 0 ? found : `${found}, ${t.silent(silent)}`;
}
