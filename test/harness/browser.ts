import axe from "axe-core";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import type { Test } from "tap";
import { findChromium } from "./requires.ts";

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

/** Exceptions, refused styles, scripts or forms, and missing files of the page fail the test. */
export function watchPage(t: Test, page: Page): void {
  page.setDefaultTimeout(20_000);
  page.on("pageerror", (error) => t.fail(`${page.url()} throws ${error.message}`));
  page.on("console", (message) => {
    // A browser reports every 4xx and lost connection; tests that provoke one look at what the page shows.
    const provoked = /the server responded with a status of 4|net::ERR_INTERNET_DISCONNECTED/.test(message.text());
    if (message.type() === "error" && !provoked) t.fail(`${page.url()} complains: ${message.text()}`);
  });
}

/** Findings of axe-core on the page as it is now, one line each. */
export async function findings(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  const found = (await page.evaluate("axe.run(document, { resultTypes: ['violations'] })")) as axe.AxeResults;
  return found.violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html.slice(0, 150)).join(" | ")}`);
}

/** No finding of axe-core and no sideways scrolling, in light and dark, on a desktop and on a phone. */
export async function looksRight(t: Test, page: Page, name: string): Promise<void> {
  for (const width of [1280, 390])
    for (const colorScheme of ["light", "dark"] as const) {
      await page.setViewportSize({ width, height: 844 });
      await page.emulateMedia({ colorScheme });
      t.same(await findings(page), [], `${name}, ${width} px, ${colorScheme}`);
      const content = await page.evaluate("document.documentElement.scrollWidth");
      t.ok((content as number) <= width, `${name}: ${String(content)} px of ${width}`);
    }
}
