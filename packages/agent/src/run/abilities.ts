import { type Abilities, allAbilities } from "@statusmesh/shared/checks/abilities";
import { kindOf } from "@statusmesh/shared/checks";
import type { Clock } from "../clock.ts";
import type { Place } from "../http/docker-socket.ts";
import { engineFault } from "../probes/engine.ts";
import { type PingCause, pingCause } from "../probes/ping.ts";
import type { Commands } from "../probes/exec/commands.ts";
import type { Log } from "../telemetry/log.ts";

/** What keeps an agent from running a kind can be repaired while it runs. */
const lookEveryMs = 60_000;
/** Longest wait for Docker. */
const engineMs = 5000;

interface Options {
  readonly clock: Clock;
  readonly log: Log;
  readonly commands: () => Commands | null;
  readonly docker: Place | null;
  readonly changed: () => void;
}

/** What this agent can run on its machine. */
export class OwnAbilities {
  readonly #options: Options;
  #ping: PingCause | null = null;
  /** Why Docker does not answer; null while it does. */
  #engine: string | null = null;
  #cancelNext: () => void = () => undefined;
  #stopped = false;
  /** Resolves when this machine was looked at for the first time. */
  readonly ready: Promise<void>;

  constructor(options: Options) {
    this.#options = options;
    this.ready = this.#look();
  }

  get kinds(): Abilities {
    const { commands: read, docker } = this.#options;
    const commands = read();
    return {
      ...allAbilities,
      ...(this.#ping === null ? {} : { ping: { unable: this.#ping } }),
      exec: commands === null ? { unable: "exec_no_commands" } : { names: [...commands.keys()].sort() },
      ...(docker === null
        ? { container: { unable: "container_no_socket" } }
        : this.#engine === null
          ? {}
          : { container: { unable: "container_away" } }),
    };
  }

  stop(): void {
    this.#stopped = true;
    this.#cancelNext();
  }

  async #look(): Promise<void> {
    const { clock, docker, changed } = this.#options;
    const [ping, engine] = await Promise.all([pingCause(), docker === null ? null : engineFault(docker, engineMs)]);
    if (this.#stopped) return;
    this.#cancelNext = clock.after(lookEveryMs, () => void this.#look());
    const [before, engineBefore] = [this.#ping, this.#engine];
    this.#ping = ping;
    this.#engine = engine;
    if (ping !== before) this.#logged("ping", ping === null ? null : kindOf({ type: "ping" }).causes![ping]!);
    if ((engine === null) !== (engineBefore === null)) this.#logged("container", engine);
    if (ping !== before || (engine === null) !== (engineBefore === null)) changed();
  }

  #logged(kind: string, cause: string | null): void {
    if (cause === null) this.#options.log("info", `${kind} checks can run now`);
    else this.#options.log("warn", `${kind} checks cannot run: ${cause}`);
  }
}
