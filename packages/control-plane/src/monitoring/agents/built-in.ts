import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { exponentialMs } from "@statusmesh/shared/backoff";
import { newToken } from "../../platform/crypto/token.ts";
import type { Log } from "../../platform/process/log.ts";

/** Its heap is small: with the default of four threads the collector spends more on sharing the work than on it. */
const nodeArgs = ["--v8-pool-size=1"];

/** Token of the agent of this data folder: created once, readable by the owner only. */
export function builtInAgentToken(dataDir: string): string {
  const file = join(dataDir, "agent-token");
  mkdirSync(dataDir, { recursive: true });
  if (!existsSync(file)) writeFileSync(file, `${newToken("sm_agent_")}\n`, { mode: 0o600, flag: "wx" });
  return readFileSync(file, "utf8").trim();
}

/** The settings among `names` that the environment has: an empty text is none. */
const inherited = (names: readonly string[]): Record<string, string> =>
  Object.fromEntries(names.flatMap((name) => (process.env[name] ? [[name, process.env[name]]] : [])));

export interface BuiltInAgent {
  /** Asks the agent to report and exit, and waits for it, at most `ms`. */
  stop(ms: number): Promise<void>;
  /** Has the agent read its file of commands again, where it has one. */
  reload(): void;
}

/**
 * Runs `sm-agent` as a child process over the same HTTP interface as any other agent, and restarts it when it dies.
 * Its standard input closes with this process, which stops it: a killed control plane leaves no orphan.
 */
export function startBuiltInAgent(options: {
  url: string;
  token: string;
  dataDir: string;
  allowPrivate: boolean;
  canaries: string;
  rdapBootstrapUrl: string;
  log: Log;
}): BuiltInAgent {
  const { log } = options;
  const program = createRequire(import.meta.url).resolve("sm-agent/cli");
  let child: ChildProcess | null = null;
  let stopping = false;
  let ended = Promise.resolve();

  const run = async () => {
    for (let failures = 0; !stopping; failures++) {
      const started = performance.now();
      const code = await new Promise<number | string | null>((resolve) => {
        child = spawn(process.execPath, [...nodeArgs, program, "run"], {
          env: {
            PATH: process.env["PATH"],
            SM_AGENT_URL: options.url,
            SM_AGENT_TOKEN: options.token,
            // The address that the server listens on belongs to this machine.
            SM_AGENT_INSECURE_HTTP: "true",
            SM_AGENT_PARENT: "stdin",
            SM_AGENT_SPOOL_DIR: join(options.dataDir, "agent-spool"),
            SM_AGENT_CANARIES: options.canaries,
            SM_SECURITY__ALLOW_PRIVATE_TARGETS: String(options.allowPrivate),
            ...(options.rdapBootstrapUrl === "" ? {} : { SM_AGENT_RDAP_BOOTSTRAP_URL: options.rdapBootstrapUrl }),
            ...inherited(["SM_AGENT_COMMANDS", "SM_AGENT_DOCKER", "SM_AGENT_CA_FILE", "NODE_EXTRA_CA_CERTS"]),
          },
          stdio: ["pipe", "pipe", "pipe"],
        });
        for (const stream of [child.stdout!, child.stderr!])
          createInterface({ input: stream }).on("line", (line) => relay(line, log));
        child.once("error", (error) => resolve(error.message));
        child.once("exit", (status, signal) => resolve(status ?? signal));
      });
      if (stopping) return;
      if (performance.now() - started > 60_000) failures = 0;
      const pause = exponentialMs(failures, 500, 30_000);
      log.error({ code, again_in_ms: pause }, "the built-in agent ended, starting it again");
      await sleep(pause);
    }
  };
  ended = run();

  return {
    async stop(ms) {
      stopping = true;
      child?.kill("SIGTERM");
      await Promise.race([ended, sleep(ms, undefined, { ref: false })]);
      child?.kill("SIGKILL");
    },
    reload() {
      // Without a file SIGHUP would end it.
      if (process.env["SM_AGENT_COMMANDS"]) child?.kill("SIGHUP");
    },
  };
}

/** The agent logs JSON lines, which join this log. */
function relay(line: string, log: Log): void {
  try {
    const { level, msg, time: _, ...fields } = JSON.parse(line) as { level?: string; msg?: string; time?: string };
    const write =
      level === "error" ? log.error : level === "warn" ? log.warn : level === "debug" ? log.debug : log.info;
    write.call(log, { agent: "built-in", ...fields }, msg ?? "");
  } catch {
    log.warn({ agent: "built-in" }, line.slice(0, 500));
  }
}
