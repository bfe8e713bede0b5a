import { exec as kind, type ExecCheck, type ExecDetails } from "@statusmesh/shared/checks/exec";
import { abortSignalOf } from "@statusmesh/shared/net/cancellation";
import { Semaphore } from "@statusmesh/shared/semaphore";
import type { CheckStatus } from "@statusmesh/shared/protocol/result";
import { codeOf, messageOf } from "@statusmesh/shared/thrown";
import { splitLine } from "./perfdata.ts";
import type { Probe, Verdict } from "../probe.ts";
import { type Ended, runProgram } from "../program.ts";

/** Processes at once. */
const maxCommands = 32;
const places = new Semaphore(maxCommands);
const busy: Verdict = { status: "error", error: `${maxCommands} commands were running`, skip: true, throttled: true };

/** Bytes of each output that are read. */
const maxOutput = 65_536;
/** Longest text of a result. */
const maxText = 1000;

/** The environment of a command, beside what the file gives. */
const environment = { PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", LANG: "C.UTF-8" };

/** Exit codes of the Monitoring Plugins; any other is an error. */
const statuses: readonly CheckStatus[] = ["up", "degraded", "down"];

/** A command of the agent's own file, judged by its exit code. */
export const exec: Probe<ExecCheck> = {
  timeoutStatus: "error",
  async run(spec, { signal, trace, commands }) {
    const command = commands?.get(spec.command);
    if (command === undefined)
      return {
        status: "error",
        error: commands === null ? kind.causes!["exec_no_commands"]! : kind.lacks!(spec),
        skip: true,
      };
    trace.verdict = busy;
    const leave = await places.enter("", abortSignalOf(signal));
    // A verdict of its own: silence of a command says nothing about the network.
    trace.verdict = { status: "error", error: `timed out after ${(spec.timeout / 1000).toFixed(1)} s` };
    try {
      const env = { ...environment, ...command.env };
      return verdictOf(await runProgram({ ...command, env, maxOutput }, signal));
    } catch (error) {
      if (signal.aborted) throw error;
      return { status: "error", error: failureOf(error, command.argv[0]) };
    } finally {
      leave();
    }
  },
};

function failureOf(error: unknown, program: string): string {
  const code = codeOf(error);
  if (code === "ENOENT") return `${program}, or the folder that it runs in, does not exist`;
  if (code === "EACCES" || code === "EPERM") return `${program} may not be executed`;
  return `${program} failed: ${messageOf(error)}`;
}

function verdictOf({ code, signal, stdout, stderr }: Ended): Verdict {
  const status = code === null ? "error" : (statuses[code] ?? "error");
  const { text, perfdata } = splitLine(firstLine(stdout));
  const details: ExecDetails | null = perfdata.length === 0 ? null : { perfdata };
  if (status === "up") return { status, error: null, details };
  const said = (text === "" ? firstLine(stderr) : text).slice(0, maxText);
  const how = signal === null ? `exit code ${code}` : `ended by ${signal}`;
  const error = said === "" ? how : status === "error" ? `${said} (${how})` : said;
  return { status, error, details };
}

const firstLine = (output: string): string => output.trimStart().split("\n", 1)[0]!.trim();
