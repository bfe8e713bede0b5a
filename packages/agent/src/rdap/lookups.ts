import type { RegistrableDomain } from "@statusmesh/shared/net/registrable-domain";
import type { Clock } from "../clock.ts";
import type { Log } from "../log.ts";
import type { RdapCache } from "./cache.ts";
import { GetError } from "./get.ts";
import { Line } from "./line.ts";
import { query } from "./query.ts";
import { ianaRegistriesUrl, Registries } from "./registries.ts";
import type { Answer, Registration } from "./registration.ts";
import { SingleFlight } from "./single-flight.ts";

/** How long an answer, good or bad, is everybody's answer. */
const slotMs = 60_000;
/** A question is given up after this even while somebody waits: a registry that drips must not keep others waiting. */
const askMs = 60_000;
/** How long a registry that says "too many" is left alone: what it asks for within these, or this. */
const pauseMs = { least: 1_000, most: 3_600_000, unsaid: 60_000 };

export interface LookupsOptions {
  cache: RdapCache;
  clock: Clock;
  log: Log;
  userAgent: string;
  /** False: a registry's redirect may lead to public addresses only. */
  allowPrivate: boolean;
  /** Where the list of registries is, when not at IANA. */
  registriesUrl?: string | undefined;
}

/** What a lookup waits for: the list of registries, its place in line, the registry. */
export type Stage = "list" | "line" | "registry";

/**
 * All lookups of registrations that this process makes. Registries are other people's free service: one question for each
 * domain in a minute, a few at once for each top-level domain, silence where one is asked for.
 */
export class RdapLookups {
  /** How many questions go out at once to the registry of one top-level domain. */
  readonly line = new Line();
  readonly #options: LookupsOptions;
  readonly #registries: Registries;
  readonly #flights = new SingleFlight<Answer>();
  readonly #recent = new Map<string, { answer: Answer; until: number }>();
  /** Servers that want to be left alone, and until when. */
  readonly #paused = new Map<string, number>();
  readonly #stages = new Map<string, Stage>();

  constructor(options: LookupsOptions) {
    this.#options = options;
    this.#registries = new Registries({ ...options, url: options.registriesUrl ?? ianaRegistriesUrl });
  }

  /** What the registry last said, however long ago. */
  known(domain: string): Registration | null {
    return this.#options.cache.registration(domain);
  }

  /** How far the lookup of a domain is that is under way. */
  stage(domain: string): Stage {
    return this.#stages.get(domain) ?? "list";
  }

  /** Finds out, or says what the last minute found out. Rejects with the reason of the signal, and with nothing else that is not a defect. */
  async lookup(name: RegistrableDomain, signal: AbortSignal): Promise<Answer> {
    const now = this.#options.clock.monotonic();
    // In the order in which they were put in, which is the order in which they end.
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
    // What this agent held back was not asked: the next may be.
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
      return { failure: `the registry of .${suffix} offers no RDAP; this domain cannot be checked`, evidence: true };
    if (this.#willing(servers).length === 0) return this.#heldBack(suffix);
    this.#stages.set(domain, "line");
    const leave = await this.line.enter(suffix.slice(suffix.lastIndexOf(".") + 1), signal);
    const limit = new AbortController();
    const cancel = clock.after(askMs, () => limit.abort(new Error("limit")));
    try {
      // Who was before us in line may have been told to wait.
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
      failure: `the registry of .${suffix} has had too many questions from this agent and is left alone for now`,
      evidence: false,
      heldBack: true,
    };
  }
}
