import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { constants } from "node:os";
import type { Readable, Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import { codeOf, codeOrMessage } from "@statusmesh/shared/thrown";
import { version } from "../version.ts";

/** Bytes of the output that are reported: what a heartbeat keeps of a body. */
const keptBytes = 10_000;
/** Longest time of one request, and of the report after the end of the command, ms. */
const requestMs = 5000;
const reportMs = 10_000;
/** Wait for output after the exit: what a command left running may hold its pipes open. */
const outputMs = 1000;
const firstRetryMs = 500;

export function define(command: Command): void {
  command
    .description(
      "Run a command and report its start, end, exit code and the end of its output to a heartbeat monitor.\n" +
        "The URL comes from a file or from SM_PING_URL, not from the command line. Exit code: that of the command,\n" +
        "128 + n when signal n ended it, 127 when it was not found. A failed report is a line on standard error.",
    )
    .option("--ping-url-file <file>", "file with the ping URL of the monitor; default: SM_PING_URL")
    .option("--no-output", "report no output")
    .argument("<command...>", "the command and its arguments, after --")
    .action(async (words: string[], options: { pingUrlFile?: string; output: boolean }) => {
      const reports = openReports(options.pingUrlFile);
      const { code, output } = await runCommand(words, reports.start);
      await reports.end(code, options.output ? output : "");
      // What the command left running may hold its pipes open.
      process.exit(code);
    });
}

const warn = (text: string): void => void process.stderr.write(`sm-agent wrap: ${text}\n`);

interface Reports {
  start(): void;
  end(code: number, output: string): Promise<void>;
}

/** Reports to the configured URL; without a usable one the command still runs, and its end is not reported. */
function openReports(file: string | undefined): Reports {
  const found = findUrl(file);
  if (typeof found === "string") {
    warn(`the run is not reported: ${found}`);
    return { start: () => undefined, end: async () => undefined };
  }
  const runId = randomUUID();
  const urlOf = (suffix: string): URL => {
    const url = new URL(found);
    url.pathname = `${url.pathname.replace(/\/$/, "")}/${suffix}`;
    url.searchParams.set("rid", runId);
    return url;
  };
  let started: Promise<unknown> = Promise.resolve();
  return {
    start() {
      started = post(urlOf("start"), "", requestMs);
    },
    async end(code, output) {
      const until = performance.now() + reportMs;
      // A start that arrives after the end would be a run that never ends.
      await started;
      for (let wait = firstRetryMs; ; wait *= 2) {
        const failure = await post(urlOf(String(code)), output, Math.max(1, until - performance.now()));
        if (failure === null) return;
        if (!failure.mayPass || performance.now() + wait >= until)
          return warn(`the end of the run could not be reported to ${found.host} (${failure.reason})`);
        await sleep(wait);
      }
    },
  };
}

function findUrl(file: string | undefined): URL | string {
  let text = process.env["SM_PING_URL"] ?? "";
  if (file !== undefined) {
    try {
      text = readFileSync(file, "utf8");
    } catch (error) {
      return `${file} cannot be read (${codeOrMessage(error)}).`;
    }
  }
  const from = file ?? "SM_PING_URL";
  text = text.trim();
  if (text === "") return `${from} has no ping URL. The page of the monitor shows it.`;
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !/^https?:$/.test(url.protocol)) return `${from} is not an http or https URL.`;
  return url;
}

/** Null when the report was taken. Never rejects. */
async function post(url: URL, body: string, ms: number): Promise<{ reason: string; mayPass: boolean } | null> {
  try {
    const answer = await fetch(url, {
      method: "POST",
      body,
      headers: { "user-agent": `sm-agent/${version}`, "content-type": "text/plain; charset=utf-8" },
      signal: AbortSignal.timeout(Math.ceil(Math.min(ms, requestMs))),
    });
    await answer.body?.cancel();
    if (answer.ok) return null;
    return { reason: `status ${answer.status}`, mayPass: answer.status >= 500 || answer.status === 429 };
  } catch (error) {
    const cause = error instanceof Error ? (error.cause ?? error) : error;
    return { reason: error instanceof DOMException ? "no answer" : codeOrMessage(cause), mayPass: true };
  }
}

/** Runs the command with the streams of this process, and passes signals on. */
function runCommand(words: readonly string[], started: () => void): Promise<{ code: number; output: string }> {
  const [program = "", ...args] = words;
  // The URL is a secret of this job, and no business of what it starts.
  const { SM_PING_URL: _, ...env } = process.env;
  const child = spawn(program, args, { env, stdio: ["inherit", "pipe", "pipe"] });
  started();
  // Without SIGUSR1, which Node keeps for its debugger.
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR2"] as const)
    process.on(signal, () => child.kill(signal));
  const output = keepEnd(child);
  return new Promise((settle) => {
    child.on("error", (error) => {
      // Only a command that did not start has no exit.
      if (child.pid !== undefined) return;
      const code = codeOf(error) === "ENOENT" ? 127 : 126;
      warn(`${program}: ${code === 127 ? "command not found" : codeOrMessage(error)}`);
      settle({ code, output: `${program}: ${code === 127 ? "command not found" : codeOrMessage(error)}\n` });
    });
    child.on("exit", (exitCode, signal) => {
      const code = signal === null ? exitCode! : 128 + constants.signals[signal];
      const end = (): void => settle({ code, output: output() });
      const timer = setTimeout(end, outputMs);
      child.on("close", () => {
        clearTimeout(timer);
        end();
      });
    });
  });
}

/** Passes the output on, and returns a function that gives its end. */
function keepEnd(child: ChildProcess): () => string {
  let kept = Buffer.alloc(0);
  const pass = (from: Readable, to: Writable): void => {
    from.on("data", (chunk: Buffer) => {
      kept = Buffer.concat([kept, chunk]).subarray(-keptBytes);
      if (to.write(chunk)) return;
      from.pause();
      to.once("drain", () => from.resume());
    });
    from.on("error", () => undefined);
    // Nobody reads any more: the command learns of it as without this process.
    to.on("error", () => from.destroy());
  };
  pass(child.stdout!, process.stdout);
  pass(child.stderr!, process.stderr);
  return () => {
    let at = 0;
    while (kept.length === keptBytes && at < 4 && (kept[at]! & 0xc0) === 0x80) at++;
    return kept.subarray(at).toString("utf8");
  };
}
