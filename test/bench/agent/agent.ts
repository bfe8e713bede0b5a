import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { type Teardown, tempFolder } from "../../harness/folder.ts";
import { endChild, startChild } from "../measure.ts";
import { nodeArgs } from "../scope.ts";

const program = pathToFileURL(createRequire(import.meta.url).resolve("sm-agent/cli"));
const statsSecs = 2;

export interface MeasuredAgent {
  readonly pid: number;
  /** Discards the figures that the agent has logged so far; it logs every two seconds. */
  forget(): void;
  /** Figures since then: medians of the lag of the windows, ms, and the number of slots that did not run. */
  numbers(): { lag_p50_ms: number; lag_p99_ms: number; skipped: number; missed: number; throttled: number };
}

/** A real agent with its spool on disk, as it runs in production. */
export async function startMeasuredAgent(
  t: Teardown,
  options: { url: string; env?: NodeJS.ProcessEnv },
): Promise<MeasuredAgent> {
  const args = [
    "run",
    "--url",
    options.url,
    "--allow-private-targets",
    "--stats-secs",
    String(statsSecs),
    "--spool-dir",
    tempFolder(t, "spool"),
  ];
  const { child, pid, lines } = await startChild(
    program,
    args,
    { SM_AGENT_TOKEN: "sm_agent_benchmark", ...options.env },
    nodeArgs,
  );
  t.teardown(() => endChild(child));
  return {
    pid,
    forget: () => void (lines.length = 0),
    numbers() {
      const windows = lines
        .map((line) => JSON.parse(line) as Numbers & { msg: string })
        .filter(({ msg }) => msg === "numbers");
      const sum = (of: "skipped" | "missed" | "throttled"): number =>
        windows.reduce((total, window) => total + window[of], 0);
      const middle = (of: "lag_p50_ms" | "lag_p99_ms"): number => median(windows.map((window) => window[of]));
      return {
        lag_p50_ms: middle("lag_p50_ms"),
        lag_p99_ms: middle("lag_p99_ms"),
        skipped: sum("skipped"),
        missed: sum("missed"),
        throttled: sum("throttled"),
      };
    },
  };
}

interface Numbers {
  lag_p50_ms: number;
  lag_p99_ms: number;
  skipped: number;
  missed: number;
  throttled: number;
}

/** Other load may disturb a window. */
function median(values: number[]): number {
  return values.sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}
