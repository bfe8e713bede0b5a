import type { RegistrableDomain } from "@statusmesh/shared/net/registrable-domain";
import { Semaphore } from "@statusmesh/shared/semaphore";
import { GetError } from "./get.ts";
import { type Answer, query, type Registration } from "./query.ts";
import { ianaRegistriesUrl, Registries, type RegistriesOptions } from "./registries.ts";
import { SingleFlight } from "./single-flight.ts";

/** Time to live of an answer, success or failure, ms. */
const slotMs = 60_000;
/** Timeout of a lookup even while callers wait, ms: a slow registry must not block others. */
const askMs = 60_000;
/** Pause of a throttling registry: its Retry-After within these bounds, or the default. */
const pauseMs = { least: 1_000, most: 3_600_000, unsaid: 60_000 };

export interface LookupsOptions extends Omit<RegistriesOptions, "url"> {
  /** URL of the list of registries; IANA's by default. */
  registriesUrl?: string | undefined;
}

/** Stage of a lookup: list of registries, queue, registry. */
export type Stage = "list" | "line" | "registry";

/**
 * All domain lookups of this process. Registries are a free service of others: one request per domain and minute, a
 * few at once per top-level domain, a pause where one asks for it.
 */
export class RdapLookups {
  /** Concurrent requests to the registry of one top-level domain. */
  readonly line = new Semaphore(1);
  readonly #options: LookupsOptions;
  readonly #registries: Registries;
  readonly #flights = new SingleFlight<Answer>();
  readonly #recent = new Map<string, { answer: Answer; until: number }>();
  /** Paused servers and the end of the pause. */
  readonly #paused = new Map<string, number>();
  readonly #stages = new Map<string, Stage>();

  constructor(options: LookupsOptions) {
    this.#options = options;
    this.#registries = new Registries({ ...options, url: options.registriesUrl ?? ianaRegistriesUrl });
  }

  /** The last answer of the registry, of any age. */
  known(domain: string): Registration | null {
    return this.#options.cache.registration(domain);
  }

  /** Stage of the running lookup of a domain. */
  stage(domain: string): Stage {
    return this.#stages.get(domain) ?? "list";
  }

  /**
   * Looks a domain up, or returns the answer of the last minute. Rejects only with the reason of the signal, or for a
   * defect.
   */
  async lookup(name: RegistrableDomain, signal: AbortSignal): Promise<Answer> {
    const now = this.#options.clock.monotonic();
    // In insertion order, which is the order of expiry.
    for (const [domain, { until }] of this.#recent) {
      if (until > now) break;
      this.#recent.delete(domain);
    }
    return (
      this.#recent.get(name.domain)?.answer ??
      (await this.#flights.join(name.domain, signal, (flight) => this.#find(name, flight)))
    );
  }

  async #find(name: RegistrableDomain, signal: AbortSignal): Promise<Answer> {
    const { cache, clock } = this.#options;
    let answer: Answer;
    try {
      answer = await this.#ask(name, signal);
    } catch (error) {
      if (signal.aborted || !(error instanceof GetError)) throw error;
      answer = { failure: `the list of registries cannot be fetched: ${error.message}`, evidence: !error.local };
    } finally {
      this.#stages.delete(name.domain);
    }
    // A lookup that was held back is not cached: the next one may succeed.
    if ("registration" in answer || answer.evidence)
      this.#recent.set(name.domain, { answer, until: clock.monotonic() + slotMs });
    if ("registration" in answer) cache.remember(name.domain, answer.registration);
    return answer;
  }

  async #ask(name: RegistrableDomain, signal: AbortSignal): Promise<Answer> {
    const { domain, suffix } = name;
    const { clock, userAgent, allowPrivate } = this.#options;
    const servers = await this.#registries.serversOf(suffix, signal);
    if (servers.length === 0)
      return { failure: `the registry of .${suffix} offers no RDAP`, evidence: true, undated: true };
    if (this.#willing(servers).length === 0) return this.#heldBack(suffix);
    this.#stages.set(domain, "line");
    const leave = await this.line.enter(suffix.slice(suffix.lastIndexOf(".") + 1), signal);
    const limit = new AbortController();
    const cancel = clock.after(askMs, () => limit.abort(new Error("limit")));
    try {
      // A request ahead in the queue may have received a pause.
      const willing = this.#willing(servers);
      if (willing.length === 0) return this.#heldBack(suffix);
      this.#stages.set(domain, "registry");
      const { answer, pauses } = await query({
        domain,
        suffix,
        servers: willing,
        userAgent,
        allowPrivate,
        signal: AbortSignal.any([signal, limit.signal]),
        now: () => clock.now(),
      });
      for (const { server, ms } of pauses)
        this.#paused.set(
          server,
          clock.monotonic() + Math.min(pauseMs.most, Math.max(pauseMs.least, ms ?? pauseMs.unsaid)),
        );
      return answer;
    } catch (error) {
      if (signal.aborted || !limit.signal.aborted) throw error;
      return { failure: `the registry of .${suffix} did not answer within ${askMs / 1000} s`, evidence: true };
    } finally {
      cancel();
      leave();
    }
  }

  #willing(servers: readonly string[]): string[] {
    const now = this.#options.clock.monotonic();
    return servers.filter((server) => (this.#paused.get(server) ?? 0) <= now);
  }

  #heldBack(suffix: string): Answer {
    return {
      failure: `the registry of .${suffix} rate-limits this agent: lookups there are paused`,
      evidence: false,
      heldBack: true,
    };
  }
}
