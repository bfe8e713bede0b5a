import { isIP } from "node:net";
import { blockedRange } from "@statusmesh/shared/net/address";
import { portOf } from "@statusmesh/shared/url";
import type { Clock } from "../clock.ts";
import type { Log } from "../telemetry/log.ts";

/** A destination whose reply shows that the agent's own network works. */
export interface Place {
  /** A name or an IP address, without brackets. */
  readonly host: string;
  readonly port: number;
}

/** A failed run: the dialled address, if any, and its start (monotonic ms). */
export interface Failure extends Place {
  readonly address: string | null;
  readonly began: number;
  /** True when the resolver was late. */
  readonly unresolved?: boolean;
}

/**
 * Connects and closes; resolves to the address that answered, rejects when none has before the signal aborts. `named`
 * is true for canaries of the operator, which bypass the guard.
 */
export type Connect = (place: Place, named: boolean, signal: AbortSignal) => Promise<string>;

/** Resolves when a name has addresses, rejects when it has none, or later than a canary may take. */
export type LookUp = (name: string) => Promise<unknown>;

export interface NetworkGuardOptions {
  clock: Clock;
  log: Log;
  connect: Connect;
  /** Looks up the names of canaries; absent: a late resolver is evidence. */
  lookUp?: LookUp;
  /** Asked first and sufficient alone: the operator chose destinations that always answer. */
  canaries: readonly Place[];
  /** Address of the control plane; no evidence when it is on this machine or its network. */
  controlPlane: Place;
  /** Called when the network fails or recovers. */
  changed?: () => void;
}

/** Public and private networks, which fail independently of each other. */
type Side = "public" | "private";

/** A destination that answered its last run. */
interface Landmark extends Place {
  readonly address: string;
  readonly side: Side;
  readonly network: string;
  answeredAt: number;
  /** Consecutive successful runs. */
  streak: number;
}

interface Canary extends Place {
  readonly network: string;
  readonly chosen: boolean;
  readonly named: boolean;
}

/** Outcome of the canaries of a side. */
interface Round {
  readonly answered: boolean;
  readonly silent: readonly Canary[];
}

const canaryTimeoutMs = 3000;
const recheckMs = 10_000;
/** This many networks are not silent together by chance. */
const minSilentNetworks = 3;
const maxLandmarksAsked = 4;
/** A destination whose answer is older than the newest by this may be gone for good, ms. */
const landmarkMaxAgeMs = 3_600_000;
const maxLandmarks = 2000;

/**
 * Prevents an outage of the agent's own network from being reported as an outage of every target.
 *
 * A failed run counts as evidence with proof that the network worked meanwhile: another destination answered after the
 * run started, or a canary answers now. When none does, and the silent ones are in enough different networks, the
 * fault is local: such runs are no evidence, and the agent is impaired until a destination answers. With too few
 * destinations the run counts. On private networks only chosen canaries count, because a whole rack can be down.
 */
export class NetworkGuard {
  readonly #options: NetworkGuardOptions;
  /** By {@link keyOf}, the most recent answer last. */
  readonly #landmarks = new Map<string, Landmark>();
  /** Per side the newest answer, and the newest one of another destination. */
  readonly #newest: Record<Side, { key: string; at: number; other: number }> = {
    public: { key: "", at: -Infinity, other: -Infinity },
    private: { key: "", at: -Infinity, other: -Infinity },
  };
  readonly #rounds: Record<Side, Promise<Round> | null> = { public: null, private: null };
  #resolves: Promise<boolean> | null = null;
  #resolverIsLate = false;
  #impaired: { side: Side; since: number; cancelRecheck: () => void } | null = null;

  constructor(options: NetworkGuardOptions) {
    this.#options = options;
  }

  /** Start of the outage of the agent's own network, Unix ms on the control plane's clock; null while it works. */
  get impairedSince(): number | null {
    return this.#impaired?.since ?? null;
  }

  /** Records a run that reached its destination. */
  reached(place: Place, address: string): void {
    const key = keyOf(place);
    const known = this.#landmarks.get(key);
    // Called for every run. The side of an address is computed only when it differs from the last one.
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

  /** False when a failed run is not evidence, because the agent's own network was down. */
  async isEvidence(failure: Failure): Promise<boolean> {
    const key = keyOf(failure);
    const known = this.#landmarks.get(key);
    if (failure.unresolved === true) {
      this.#resolves ??= this.#resolverAnswers(failure.host).finally(() => (this.#resolves = null));
      if (!(await this.#resolves)) return false;
    }
    const address = failure.address ?? (isIP(failure.host) === 0 ? null : failure.host);
    if (address !== null && isLoopback(address)) return true;
    const side = address === null ? (known?.side ?? "public") : sideOf(address);
    const network = address === null ? known?.network : networkOf(address);
    // With too few destinations to decide, none is probed and the run does not wait.
    if (!this.#answeredElsewhere(side, failure) && isOwnNetworkDown(this.#canaries(side), network)) {
      const round = await (this.#rounds[side] ??= this.#ask(side));
      if (!round.answered && !this.#answeredElsewhere(side, failure) && isOwnNetworkDown(round.silent, network)) {
        this.#fails(side);
        return false;
      }
    }
    // It fails by itself, so its silence is not evidence from now on.
    this.#landmarks.delete(key);
    return true;
  }

  /** Cancels the timers of the impairment. */
  stop(): void {
    this.#impaired?.cancelRecheck();
  }

  #answeredElsewhere(side: Side, failure: Failure): boolean {
    const { key, at, other } = this.#newest[side];
    return (key === keyOf(failure) ? other : at) >= failure.began;
  }

  /** False when the resolver answers for none of the names that it answered for before; true without such names. */
  async #resolverAnswers(failed: string): Promise<boolean> {
    const { canaries, controlPlane, lookUp, clock, log } = this.#options;
    const recent = [...this.#landmarks.values()].slice(-50).reverse();
    const names = new Set([...canaries, controlPlane, ...recent].map(({ host }) => host));
    const asked = [...names].filter((name) => isIP(name) === 0 && name !== "localhost" && name !== failed).slice(0, 4);
    if (lookUp === undefined || asked.length === 0) return true;
    let cancel = (): void => undefined;
    const late = new Promise<boolean>((settle) => (cancel = clock.after(canaryTimeoutMs, () => settle(false))));
    const any = Promise.any(asked.map((name) => lookUp(name))).then(
      () => true,
      () => false,
    );
    const answers = await Promise.race([any, late]);
    cancel();
    if (answers === this.#resolverIsLate) {
      this.#resolverIsLate = !answers;
      if (answers) log("info", "the agent's name server answers again");
      else log("warn", "the agent's name server does not answer. Runs that wait for it do not count", { asked });
    }
    return answers;
  }

  /** Asks all canaries of a side at once; the first answer ends the round. */
  async #ask(side: Side): Promise<Round> {
    const { clock, connect } = this.#options;
    const over = new AbortController();
    const cancel = clock.after(canaryTimeoutMs, () => over.abort(new Error("no answer")));
    const silent: Canary[] = [];
    const asked = this.#canaries(side).map(async (canary) => {
      const address = await connect(canary, canary.named, over.signal).catch(() => null);
      if (address === null) silent.push(canary);
      // An address of the other side, or of this machine, is no evidence.
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

  /** Chosen canaries; on the public side also the control plane and the most reliable targets, one per network. */
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
    this.#impaired = { side, since: clock.now(), cancelRecheck: () => undefined };
    log("error", "the agent's own network is down: no destination answers. Runs that fail meanwhile do not count");
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

/** True when the silence of these canaries and of the destination in `failed` has a common cause: this agent. */
function isOwnNetworkDown(silent: readonly Canary[], failed: string | undefined): boolean {
  if (silent.some(({ chosen }) => chosen)) return true;
  const networks = new Set(silent.map(({ network }) => network));
  if (failed !== undefined) networks.add(failed);
  return networks.size >= minSilentNetworks;
}

/** Null for an address of this machine, which is no evidence. */
function landmarkAt({ host, port }: Place, address: string, streak: number): Landmark | null {
  if (isLoopback(address)) return null;
  return { host, port, address, side: sideOf(address), network: networkOf(address), answeredAt: -Infinity, streak };
}

const keyOf = ({ host, port }: Place): string => `${host} ${port}`;

const isLoopback = (address: string): boolean => /^(127\.|::1$|::ffff:127\.)/.test(address);

const sideOf = (address: string): Side => (blockedRange(address) === null ? "public" : "private");

/** Prefix that roughly distinguishes networks of operators: 16 bits of IPv4, 32 of IPv6. */
function networkOf(address: string): string {
  if (isIP(address) === 4) return address.split(".").slice(0, 2).join(".");
  // The canonical form of a URL has no leading zeros, and global addresses have no relevant gap in their first 32 bits.
  return new URL(`http://[${address}]/`).hostname.slice(1, -1).split(":").slice(0, 2).join(":");
}

/** Host and port of a URL. */
export function placeOf(url: string): Place {
  const parsed = new URL(url);
  return { host: parsed.hostname.replace(/^\[|\]$/g, ""), port: portOf(parsed) };
}
