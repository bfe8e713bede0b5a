import { type Command, Option } from "commander";
import { badge, exits } from "../shell/output.ts";
import * as options from "../shell/options.ts";
import { screenOf, tame, type Tone } from "@statusmesh/shared/shell/terminal";
import { type PreflightResult, preflight } from "./preflight.ts";
import { version } from "../version.ts";

const tones: Record<PreflightResult["state"], Tone> = { ok: "good", warn: "warn", fail: "bad" };

export function define(command: Command): void {
  for (const option of options.ofRun()) command.addOption(option);
  command
    .description(
      "Test everything that run needs, with the same options and environment, without running: no check is claimed " +
        "and the agent does not join. Exit code: 0 ready, 69 control plane unreachable, 77 token refused, 78 spool " +
        "folder or file of commands unusable.",
    )
    .addOption(new Option("--json", "print one JSON object"))
    .action(async (given: options.OfRun & { json?: true }) => {
      const screen = screenOf(process.stdout, process.env);
      const results: PreflightResult[] = [];
      for await (const finding of preflight({ ...given, version, timeoutMs: 10_000, env: process.env })) {
        results.push(finding);
        const { what, state, message } = finding;
        if (given.json !== true)
          process.stdout.write(`${badge(state.padEnd(4), tones[state], screen)}  ${what}: ${tame(message)}\n`);
      }
      const able = !results.some(({ state }) => state === "fail");
      if (given.json === true)
        process.stdout.write(
          JSON.stringify({
            ok: able,
            findings: results.map(({ what, state, message }) => ({ what, state, message })),
          }) + "\n",
        );
      process.exitCode = results.find(({ exit }) => exit !== undefined)?.exit ?? exits.up;
    });
}
