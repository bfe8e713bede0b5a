import { asObject, parsedJson } from "@statusmesh/shared/json";
import type { Clock } from "../clock.ts";
import type { Log } from "../telemetry/log.ts";
import type { RdapCache, SavedRegistries } from "./cache.ts";
import { get, GetError } from "./get.ts";
import { isAllowedUrl, isPlain } from "./allowed-url.ts";
import { SingleFlight } from "./single-flight.ts";

/** IANA's list of registries by top-level domain (RFC 9224). */
export const ianaRegistriesUrl = "https://data.iana.org/rdap/dns.json";

const maxBytes = 2_000_000;
/** Time to live of the list, ms: the list changes a few times a week. */
const freshMs = 86_400_000;
/** Time for the list within a lookup when an old copy exists, ms. */
const refreshMs = 10_000;
/** Delay after a failed fetch, with and without an old copy, ms. */
const retryWithCopyMs = 600_000;
const retryWithoutMs = 60_000;

export interface RegistriesOptions {
  url: string;
  userAgent: string;
  /** False: redirects may lead to public addresses only. */
  allowPrivate: boolean;
  cache: RdapCache;
  clock: Clock;
  log: Log;
}

/** The list of registries: fetched once, cached for a day, and used at any age until there is a newer one. */
export class Registries {
  readonly #options: RegistriesOptions;
  readonly #flight = new SingleFlight<SavedRegistries>();
  #notBefore = Number.NEGATIVE_INFINITY;
  #failure = new GetError("the list of registries has not been requested yet");

  constructor(options: RegistriesOptions) {
    this.#options = options;
  }

  /**
   * RDAP servers for a public suffix, best first; none where the registry offers no RDAP. Rejects with GetError
   * without a list, or with the reason of the signal.
   */
  async serversOf(suffix: string, signal: AbortSignal): Promise<readonly string[]> {
    const { servers } = await this.#current(signal);
    // The longest match counts (RFC 9224 section 4).
    for (let rest = suffix; ; rest = rest.slice(rest.indexOf(".") + 1)) {
      const found = servers[rest];
      if (found !== undefined || !rest.includes(".")) return found ?? [];
    }
  }

  async #current(signal: AbortSignal): Promise<SavedRegistries> {
    const { cache, clock, url, log } = this.#options;
    const known = cache.registries(url);
    const age = known === null ? 0 : clock.now() - known.fetchedAt;
    if (known !== null && age >= 0 && age < freshMs) return known;
    if (clock.monotonic() < this.#notBefore) {
      if (known !== null) return known;
      throw this.#failure;
    }
    try {
      return await this.#flight.join("", signal, (flight) => this.#fetch(flight, known !== null));
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      if (!(error instanceof GetError)) throw error;
      if (known === null) throw error;
      log("warn", "the list of RDAP registries could not be refreshed; the old one is used", {
        reason: error.message,
        age_hours: Math.round(age / 3_600_000),
      });
      return known;
    }
  }

  async #fetch(signal: AbortSignal, hasCopy: boolean): Promise<SavedRegistries> {
    const { url, userAgent, allowPrivate, cache, clock } = this.#options;
    const limit = new AbortController();
    const cancel = hasCopy
      ? clock.after(refreshMs, () =>
          limit.abort(new GetError(`${new URL(url).host} did not answer within ${refreshMs / 1000} s`)),
        )
      : () => undefined;
    // Also when this caller gives up: the next one must not wait as long while an old copy exists.
    if (hasCopy) this.#notBefore = clock.monotonic() + retryWithCopyMs;
    try {
      const { status, text } = await get(url, {
        accept: "application/json",
        userAgent,
        signal: AbortSignal.any([signal, limit.signal]),
        maxBytes,
        allowPrivate,
      });
      if (status !== 200) throw new GetError(`${new URL(url).host} answered with status ${status}`);
      const fetched: SavedRegistries = { url, fetchedAt: clock.now(), servers: readList(text, new URL(url)) };
      cache.keepRegistries(fetched);
      this.#notBefore = Number.NEGATIVE_INFINITY;
      return fetched;
    } catch (error) {
      if (!signal.aborted && error instanceof GetError) {
        this.#failure = error;
        this.#notBefore = clock.monotonic() + (hasCopy ? retryWithCopyMs : retryWithoutMs);
      }
      throw error;
    } finally {
      cancel();
    }
  }
}

/**
 * The bootstrap file of RFC 9224 section 3: `services` is a list of [names, base URLs]. Invalid entries are skipped.
 * Servers with https come first; local ones over http count in a file from this machine only.
 */
function readList(text: string, from: URL): Record<string, string[]> {
  const file = parsedJson(text);
  if (file === undefined) throw new GetError(`the answer of ${from.host} is not JSON`);
  const { services } = asObject(file);
  const servers: Record<string, string[]> = Object.create(null) as Record<string, string[]>;
  for (const service of Array.isArray(services) ? (services as unknown[]) : []) {
    const [names, urls] = Array.isArray(service) ? (service as unknown[]) : [];
    const bases = texts(urls)
      .filter((url) => url.length <= 500 && URL.canParse(url))
      .filter((url) => isAllowedUrl(new URL(url), from) || isPlain(new URL(url)))
      .toSorted((one, other) => Number(isPlain(new URL(one))) - Number(isPlain(new URL(other))));
    for (const name of texts(names))
      if (name.length <= 253) servers[name.toLowerCase()] = bases.map((url) => (url.endsWith("/") ? url : `${url}/`));
  }
  if (Object.keys(servers).length === 0) throw new GetError(`the answer of ${from.host} is no list of RDAP registries`);
  return servers;
}

const texts = (value: unknown): string[] =>
  Array.isArray(value) ? (value as unknown[]).filter((entry) => typeof entry === "string") : [];
