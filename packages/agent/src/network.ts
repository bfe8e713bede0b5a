import { isIP } from "node:net";
import { blockedRange } from "@statusmesh/shared/net/address";
import type { Clock } from "./clock.ts";
import type { Log } from "./log.ts";

/** Something on the network that may show, by answering, that the agent's own network works. */
export interface Place {
  /** A name or an IP address, without brackets. */
  readonly host: string;
  readonly port: number;
}

/** A run that did not reach its destination: the address that it dialled, if it came so far, and when it began (monotonic ms). */
export interface Failure extends Place {
  readonly address: string | null;
  readonly began: number;
}

/**
 * Connects and hangs up; resolves to the address that answered, rejects when none has by the time the signal aborts.
 * `named` is true for places that the operator of the agent named, which the guard does not stand before.
 */
export type Connect = (place: Place, named: boolean, signal: AbortSignal) => Promise<string>;

export interface NetworkGuardOptions {
  clock: Clock;
  log: Log;
  connect: Connect;
  /** Asked first, and believed alone: a person chose them because they always answer. */
  canaries: readonly Place[];
  /** Where the control plane is; shows nothing where it is on this machine or its own network. */
  controlPlane: Place;
  /** The network went down, or works again. */
  changed?: () => void;
}

/** The internet, or networks of one's own: that one of them answers says nothing about the other. */
type Side = "public" | "private";

/** A destination that answered its last run. */
interface Landmark extends Place {
  readonly address: string;
  readonly side: Side;
  readonly network: string;
  answeredAt: number;
  /** Runs in a row that it answered. */
  streak: number;
}

interface Canary extends Place {
  readonly network: string;
  readonly chosen: boolean;
  readonly named: boolean;
}

/** What the canaries of a side said. `silent` are those that did not answer anybody. */
interface Round {
  readonly answered: boolean;
  readonly silent: readonly Canary[];
}

const canaryTimeoutMs = 3000;
const recheckMs = 10_000;
/** So many networks do not fall silent together by chance. */
const minSilentNetworks = 3;
const maxLandmarksAsked = 4;
/** Who answered this long before the newest answer may be gone for good. */
const landmarkMaxAgeMs = 3_600_000;
const maxLandmarks = 2000;

/**
 * Keeps the agent from reporting an outage of its own network as one of every target.
 *
 * A run that did not reach its destination is believed with proof that the network worked meanwhile: another destination
 * answered after the run had begun, or a canary answers now. When nobody does, and the silent ones are of enough different
 * networks, the fault is here: such runs are no evidence, and the agent is impaired until something answers. With too few
 * to tell, a run is believed. On private networks only chosen canaries are enough: a rack is down as a whole easily.
 */
export class NetworkGuard {
  readonly #options: NetworkGuardOptions;
  /** By {@link keyOf}, the one that answered last at the end. */
  readonly #landmarks = new Map<string, Landmark>();
  /** For each side the newest answer, and the newest one of any other destination. */
  readonly #newest: Record<Side, { key: string; at: number; other: number }> = {
    public: { key: "", at: -Infinity, other: -Infinity },
    private: { key: "", at: -Infinity, other: -Infinity },
  };
  readonly #rounds: Record<Side, Promise<Round> | null> = { public: null, private: null };
  #impaired: { side: Side; since: number; cancelRecheck: () => void } | null = null;

  constructor(options: NetworkGuardOptions) {
    this.#options = options;
  }

  /** Since when the agent's own network has been down, Unix ms on the control plane's clock; null when it works. */
  get impairedSince(): number | null {
    return this.#impaired?.since ?? null;
  }

  /** Notes that a run reached its destination. */
  reached(place: Place, address: string): void {
    const key = keyOf(place);
    const known = this.#landmarks.get(key);
    // This is done for every run. Where an address lies is found out only when it is another than the last time.
    const landmark = known?.address === address ? known : landmarkAt(place, address, known?.streak ?? 0);
    if (landmark === null) return;
    const at = this.#options.clock.monotonic();
    landmark.answeredAt = at;
    landmark.streak++;
    this.#landmarks.delete(key);
    this.#landmarks.set(key, landmark);
    if (this.#landmarks.size > maxLandmarks) this.#landmarks.delete(this.#landmarks.keys().next().value!);
    const newest = this.#newest[landmark.side];
    if (newest.key !== key) newest.other = newest.at;
    newest.key = key;
    newest.at = at;
    this.#works(landmark.side);
  }

  /** False when a failed run says nothing about its destination, because the agent's own network was down. */
  async believes(failure: Failure): Promise<boolean> {
    const key = keyOf(failure);
    const known = this.#landmarks.get(key);
    const address = failure.address ?? (isIP(failure.host) === 0 ? null : failure.host);
    if (address !== null && isLoopback(address)) return true;
    const side = address === null ? (known?.side ?? "public") : sideOf(address);
    const network = address === null ? known?.network : networkOf(address);
    // Where there are too few to convict even if all were silent, nobody is asked and the run need not wait.
    if (!this.#answeredElsewhere(side, failure) && convicts(this.#canaries(side), network)) {
      const round = await (this.#rounds[side] ??= this.#ask(side));
      if (!round.answered && !this.#answeredElsewhere(side, failure) && convicts(round.silent, network)) {
        this.#fails(side);
        return false;
      }
    }
    // It fails by itself, so its silence shows nothing about the network from now on.
    this.#landmarks.delete(key);
    return true;
  }

  /** Forgets the impairment's clockwork. */
  stop(): void {
    this.#impaired?.cancelRecheck();
  }

  #answeredElsewhere(side: Side, failure: Failure): boolean {
    const { key, at, other } = this.#newest[side];
    return (key === keyOf(failure) ? other : at) >= failure.began;
  }

  /** Asks the canaries of a side all at once; the first answer ends the round. */
  async #ask(side: Side): Promise<Round> {
    const { clock, connect } = this.#options;
    const over = new AbortController();
    const cancel = clock.after(canaryTimeoutMs, () => over.abort(new Error("no answer")));
    const silent: Canary[] = [];
    const asked = this.#canaries(side).map(async (canary) => {
      const address = await connect(canary, canary.named, over.signal).catch(() => null);
      if (address === null) silent.push(canary);
      // One that leads to the other side, or nowhere farther than this machine, shows nothing.
      if (address === null || isLoopback(address) || sideOf(address) !== side) throw new Error("no proof");
    });
    const answered = await Promise.any(asked).then(
      () => true,
      () => false,
    );
    cancel();
    over.abort(new Error("answered"));
    this.#rounds[side] = null;
    if (answered) this.#works(side);
    return { answered, silent };
  }

  /** The chosen ones; on the public side the control plane and, each of another network, the landmarks that answered best as well. */
  #canaries(side: Side): Canary[] {
    const { canaries, controlPlane } = this.#options;
    const chosen = canaries.map((place) => ({ ...place, network: place.host, chosen: true, named: true }));
    if (side === "private") return chosen;
    const recent = this.#newest.public.at - landmarkMaxAgeMs;
    const best = new Map<string, Landmark>();
    for (const landmark of this.#landmarks.values()) {
      if (landmark.side !== "public" || landmark.answeredAt < recent) continue;
      if (landmark.streak > (best.get(landmark.network)?.streak ?? 0)) best.set(landmark.network, landmark);
    }
    const landmarks = [...best.values()].sort((a, b) => b.streak - a.streak).slice(0, maxLandmarksAsked);
    const here = controlPlane.host === "localhost" || isLoopback(controlPlane.host);
    return [
      ...chosen,
      ...(here ? [] : [{ ...controlPlane, network: controlPlane.host, chosen: false, named: true }]),
      ...landmarks.map((landmark) => ({ ...landmark, chosen: false, named: false })),
    ];
  }

  #fails(side: Side): void {
    if (this.#impaired !== null) return;
    const { clock, log } = this.#options;
    this.#impaired = { side, since: Math.round(clock.now()), cancelRecheck: () => undefined };
    log(
      "error",
      "the agent's own network is down: nothing that it asks answers. Runs that fail meanwhile count for nothing",
    );
    this.#options.changed?.();
    this.#recheckLater();
  }

  #recheckLater(): void {
    const impaired = this.#impaired;
    if (impaired === null) return;
    impaired.cancelRecheck = this.#options.clock.after(recheckMs, () => {
      void (this.#rounds[impaired.side] ??= this.#ask(impaired.side)).then(() => this.#recheckLater());
    });
  }

  #works(side: Side): void {
    const impaired = this.#impaired;
    if (impaired === null || impaired.side !== side) return;
    impaired.cancelRecheck();
    this.#impaired = null;
    const secs = Math.round((this.#options.clock.now() - impaired.since) / 1000);
    this.#options.log("info", "the agent's own network works again", { secs });
    this.#options.changed?.();
  }
}

/** True when the silence of these canaries, and of the destination in `failed`, is the fault of what they have in common: this agent. */
function convicts(silent: readonly Canary[], failed: string | undefined): boolean {
  if (silent.some(({ chosen }) => chosen)) return true;
  const networks = new Set(silent.map(({ network }) => network));
  if (failed !== undefined) networks.add(failed);
  return networks.size >= minSilentNetworks;
}

/** Null for an address of this machine, which shows nothing. */
function landmarkAt({ host, port }: Place, address: string, streak: number): Landmark | null {
  if (isLoopback(address)) return null;
  return { host, port, address, side: sideOf(address), network: networkOf(address), answeredAt: -Infinity, streak };
}

const keyOf = ({ host, port }: Place): string => `${host} ${port}`;

const isLoopback = (address: string): boolean => /^(127\.|::1$|::ffff:127\.)/.test(address);

const sideOf = (address: string): Side => (blockedRange(address) === null ? "public" : "private");

/** The part of an address that tells one operator's network from another's, roughly: 16 bits of IPv4, 32 of IPv6. */
function networkOf(address: string): string {
  if (isIP(address) === 4) return address.split(".").slice(0, 2).join(".");
  // The canonical form of a URL has no leading zeros, and global addresses have no gap in their first 32 bits that matters here.
  return new URL(`http://[${address}]/`).hostname.slice(1, -1).split(":").slice(0, 2).join(":");
}
