import { type Abilities, allAbilities } from "@statusmesh/shared/checks/abilities";
import { kindOf } from "@statusmesh/shared/checks";
import type { Clock } from "../clock.ts";
import { type PingCause, pingCause } from "../probes/ping.ts";
import type { Commands } from "../probes/commands.ts";
import type { Log } from "../telemetry/log.ts";

/** What keeps an agent from running a kind can be repaired while it runs. */
const lookEveryMs = 60_000;

/** What this agent can run on its machine. */
export class OwnAbilities {
  readonly #options: { clock: Clock; log: Log; commands: () => Commands | null; changed: () => void };
  #ping: PingCause | null = null;
  #cancelNext: () => void = () => undefined;
  #stopped = false;
  /** Resolves when this machine was looked at for the first time. */
  readonly ready: Promise<void>;

  constructor(options: { clock: Clock; log: Log; commands: () => Commands | null; changed: () => void }) {
    this.#options = options;
    this.ready = this.#look();
  }

  get kinds(): Abilities {
    const commands = this.#options.commands();
    return {
      ...allAbilities,
      ...(this.#ping === null ? {} : { ping: { unable: this.#ping } }),
      exec: commands === null ? { unable: "exec_no_commands" } : { names: [...commands.keys()].sort() },
    };
  }

  stop(): void {
    this.#stopped = true;
    this.#cancelNext();
  }

  async #look(): Promise<void> {
    const { clock, log, changed } = this.#options;
    const cause = await pingCause();
    if (this.#stopped) return;
    this.#cancelNext = clock.after(lookEveryMs, () => void this.#look());
    if (cause === this.#ping) return;
    this.#ping = cause;
    if (cause === null) log("info", "ping checks can run now");
    else log("warn", `ping checks cannot run: ${kindOf({ type: "ping" }).causes![cause]}`);
    changed();
  }
}
