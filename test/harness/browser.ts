import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type axe from "axe-core";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import type { Test } from "tap";
import { findChromium } from "./requires.ts";
import { defaultDeadlineMs } from "./wait.ts";

const flags = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** The browser of the test run, which `npm test` starts for several files, or one of this test. */
export async function openBrowser(t: Test): Promise<Browser> {
  const shared = process.env["SM_TEST_BROWSER"];
  const browser = shared
    ? await chromium.connect(shared)
    : await chromium.launch({ executablePath: findChromium()!, args: flags });
  t.teardown(async () => await browser.close());
  return browser;
}

/** A new page, watched by {@link watchPage}. */
export async function openPage(t: Test, context: BrowserContext): Promise<Page> {
  const page = await context.newPage();
  watchPage(t, page);
  return page;
}

/** The form of a new monitor tests its check by itself: nothing but what is on this machine is asked. */
const keepTestsHere = `{
  const fetched = window.fetch;
  const leaves = (url, options) => /targets\\/test/.test(url) && !/127\\.0\\.0\\.1/.test(options?.body ?? "");
  const refusal = { error: { code: "NOT_PROBED", message: "Not on this machine.", field: null, details: null } };
  window.fetch = async (url, options) =>
    leaves(String(url), options) ? Response.json(refusal, { status: 422 }) : await fetched(url, options);
}`;

/** Exceptions, refused styles, scripts or forms, and missing files of the page fail the test. */
export function watchPage(t: Test, page: Page): void {
  page.setDefaultTimeout(defaultDeadlineMs);
  void page.addInitScript(keepTestsHere);
  page.on("pageerror", (error) => t.fail(`${page.url()} throws ${error.message}`));
  page.on("console", (message) => {
    // A browser reports every 4xx and lost connection; tests that provoke one look at what the page shows.
    const provoked = /the server responded with a status of 4|net::ERR_INTERNET_DISCONNECTED/.test(message.text());
    if (message.type() === "error" && !provoked) t.fail(`${page.url()} complains: ${message.text()}`);
  });
}

/** A third of the package's main file: the browser parses it in each page. */
const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Looks of text that were judged in this process: colour, size and weight, and every background behind it. */
const judged = new Set<string>();

/** Marks texts for the rule about contrast, three of each look that is not among the given, and returns those looks. */
const markNew = `(known) => {
  const marks = new Map();
  const written = (element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim() !== "");
  for (const element of document.querySelectorAll("body *")) {
    if (!(element.matches("input, select, textarea") || written(element)) || !element.checkVisibility()) continue;
    const { color, fontSize, fontWeight } = getComputedStyle(element);
    const look = [color, fontSize, fontWeight];
    for (let at = element; at !== null; at = at.parentElement) {
      const { backgroundColor, backgroundImage, opacity } = getComputedStyle(at);
      if (backgroundColor !== "rgba(0, 0, 0, 0)" || backgroundImage !== "none" || opacity !== "1")
        look.push(backgroundColor, backgroundImage, opacity);
    }
    const key = look.join();
    const count = marks.get(key) ?? 0;
    if (known.includes(key) || count === 3) continue;
    marks.set(key, count + 1);
    element.dataset.newLook = "";
  }
  return [...marks.keys()];
}`;

const judge = `async () => {
  // What is inside of web components cannot be marked from outside.
  const marked = [...document.querySelectorAll("*")].every((element) => element.shadowRoot === null);
  axe.configure({ rules: [{ id: "color-contrast", selector: marked ? "[data-new-look]" : "*" }] });
  const results = await axe.run(document, { resultTypes: ["violations"] });
  for (const element of document.querySelectorAll("[data-new-look]")) delete element.dataset.newLook;
  return results;
}`;

/**
 * Findings of axe-core on the page as it is now, one line each. Contrast, more than half of its time, is judged once
 * for each look of a text.
 */
export async function findings(page: Page): Promise<string[]> {
  if (!(await page.evaluate("'axe' in window"))) await page.evaluate(axeSource);
  const looks = (await page.evaluate(`(${markNew})(${JSON.stringify([...judged])})`)) as string[];
  const found = (await page.evaluate(`(${judge})()`)) as axe.AxeResults;
  for (const look of looks) judged.add(look);
  return found.violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html.slice(0, 150)).join(" | ")}`);
}

let looked = 0;

/**
 * No sideways scrolling on a phone in dark and on a desktop in light, and no finding of axe-core at one of them, in
 * turn: what a page holds depends on neither, a layout not on the theme, and the contrast of every pair of colours in
 * both themes is computed in `platform/html/views.test.ts`. The page ends light and wide.
 */
export async function looksRight(t: Test, page: Page, name: string): Promise<void> {
  const looks = [
    { width: 390, colorScheme: "dark" },
    { width: 1280, colorScheme: "light" },
  ] as const;
  const audited = looks[looked++ % looks.length];
  for (const look of looks) {
    const { width, colorScheme } = look;
    const title = `${name}, ${width} px, ${colorScheme}`;
    await page.setViewportSize({ width, height: 800 });
    await page.emulateMedia({ colorScheme });
    if (look === audited) t.same(await findings(page), [], title);
    const over = await page.evaluate("document.documentElement.scrollWidth - innerWidth");
    t.equal(over, 0, `${title}: no sideways scrolling`);
  }
}

/** Opens the menu with the further actions of the page. */
export async function openMenu(page: Page): Promise<void> {
  await page.locator("main .menu > summary").first().click();
}
