import { createRequire } from "node:module";
import type * as library from "tough-cookie";

/* Cookies within one run (RFC 6265). Nothing is kept between runs. */

/** Cookies of one run, and the length of one with its attributes. */
const maxCookies = 50;
const maxCookieLength = 4096;
/** Fields of one run that are read: refusing the 5,000 that a head has space for takes 100 ms. */
const maxRead = 200;

/** What a run has been given to send with later requests. */
export class Cookies {
  readonly #jar: library.CookieJar;
  #count = 0;
  #read = 0;

  constructor() {
    // Loaded on first use: few runs are redirected by an answer that sets a cookie.
    const { CookieJar } = createRequire(import.meta.url)("tough-cookie") as typeof library;
    this.#jar = new CookieJar(undefined, { allowSecureOnLocal: false });
  }

  /** Keeps the cookies that an answer from the URL sets for it. */
  take(values: readonly string[], url: URL): void {
    for (const value of values) {
      if (this.#count >= maxCookies || ++this.#read > maxRead) return;
      if (value.length > maxCookieLength) continue;
      if (this.#jar.setCookieSync(value, url.href, { ignoreError: true }) !== undefined) this.#count++;
    }
  }

  /** The Cookie header for a request; empty without one. */
  for(url: URL): string {
    return this.#jar.getCookieStringSync(url.href);
  }
}
