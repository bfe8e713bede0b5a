import { secondMs } from "@statusmesh/shared/time";

/** Lifetime of an unknown address: a new monitor waits no longer for its first ping. */
const unknownMs = 5 * secondMs;
const maxEntries = 50_000;

/** Which ping addresses exist, as replies of the control plane have shown; by digest. */
export class KnownAddresses {
  readonly #known = new Set<string>();
  readonly #unknown = new Map<string, number>();

  /** Records the reply to a delivery: no monitor has the addresses in `unknown`. */
  note(delivered: readonly string[], unknown: ReadonlySet<string>, now: number): void {
    for (const address of delivered) {
      if (!unknown.has(address)) this.#known.add(address);
      else {
        this.#known.delete(address);
        this.#unknown.set(address, now + unknownMs);
      }
    }
    for (const entries of [this.#known, this.#unknown])
      while (entries.size > maxEntries) entries.delete(entries.keys().next().value!);
  }

  isKnown(address: string): boolean {
    return this.#known.has(address);
  }

  isUnknown(address: string, now: number): boolean {
    const until = this.#unknown.get(address);
    if (until === undefined || now < until) return until !== undefined;
    this.#unknown.delete(address);
    return false;
  }
}
