import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import { tame } from "@statusmesh/shared/shell/terminal";
import { inUnits } from "@statusmesh/shared/time";
import { connectionOf, connects, type ConnectionOptions } from "../shell/connection.ts";
import { durationMs, jsonOption } from "../shell/options.ts";
import { Failure, printJson, tell, Unreachable } from "../shell/output.ts";
import { type Monitor, type Selection, selectMonitors, selects } from "../shell/select.ts";

interface Options extends ConnectionOptions, Selection {
  healthy?: boolean;
  timeout: number;
  json?: boolean;
}

const pollMs = 2000;

export function define(command: Command): void {
  selects(connects(command))
    .description(
      "Wait until the selected monitors are up, printing those that are not. Degraded, paused and unknown are not " +
        "healthy. Exit code 1 at the deadline, and when nothing is selected.",
    )
    .requiredOption("--healthy", "the state to wait for")
    .option("--timeout <duration>", "longest wait, such as 90s or 10m (default: 5m)", durationMs, 300_000)
    .addOption(jsonOption())
    .action(waitForHealth);
}

async function waitForHealth(options: Options): Promise<void> {
  const { monitor = [], tag = [], timeout, json } = options;
  if (monitor.length + tag.length === 0) throw new Failure("nothing is selected. Use --monitor or --tag.");
  const api = await connectionOf(options);
  const deadline = Date.now() + timeout;
  let said = "";
  let waiting: readonly Monitor[] | null = null;
  for (;;) {
    try {
      const monitors = await selectMonitors(api, monitor, tag);
      waiting = monitors.filter((one) => stateOf(one) !== "up");
      if (waiting.length === 0) {
        if (json === true) printJson({ healthy: true, waiting: [] });
        else tell(`${monitors.length} ${monitors.length === 1 ? "monitor is" : "monitors are"} up.`);
        return;
      }
    } catch (error) {
      // A server that restarts during a deployment is waited for too.
      if (!(error instanceof Unreachable)) throw error;
      if (said !== error.message) tell((said = error.message));
    }
    const words = (waiting ?? []).map((one) => `${stateOf(one)}  ${tame(one.name)}`).join("\n");
    if (words !== "" && words !== said) {
      said = words;
      tell(`waiting for ${waiting!.length}:\n${words.replaceAll(/^/gm, "  ")}`);
    }
    const left = deadline - Date.now();
    if (left <= 0) break;
    await sleep(Math.min(pollMs, left));
  }
  if (json === true)
    printJson({
      healthy: false,
      waiting: (waiting ?? []).map((one) => ({ id: one.id, name: one.name, state: stateOf(one) })),
    });
  throw new Failure(
    waiting === null
      ? `the server did not answer within ${inUnits(timeout)}.`
      : `${waiting.length} ${waiting.length === 1 ? "monitor is" : "monitors are"} not up after ${inUnits(timeout)}.`,
  );
}

const stateOf = ({ enabled, status }: Monitor): string => (enabled ? status : "paused");
