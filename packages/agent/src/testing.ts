import { createServer, type AddressInfo, type Server, type Socket } from "node:net";
import type { Test } from "tap";
import type { HttpCheck } from "@statusmesh/shared/checks/http";
import { type Clock, correctedClock } from "./clock.ts";
import { runCommand } from "./program.ts";
import type { Place } from "./http/docker-socket.ts";
import type { Commands } from "./probes/exec/commands.ts";
import type { NetworkGuard } from "./run/network.ts";
import { rdapCache } from "./rdap/cache.ts";
import { type LookupsOptions, RdapLookups } from "./rdap/lookups.ts";
import { type Files, folderFiles, type SegmentFile } from "./spool/files.ts";
import { Runner, type Outcome } from "./run/run.ts";
import { Stats } from "./telemetry/stats.ts";

/** How a command ended, with what it printed. */
export interface Ended {
  code: number | null;
  stdout: string;
  stderr: string;
}

/**
 * Runs the function of a command in the test's own process, with `env` beside its environment: a start of the program
 * takes a quarter of a second of CPU time. Nothing else may write meanwhile.
 */
export async function endedHere(run: () => Promise<void>, env: Record<string, string>): Promise<Ended> {
  const outputs = [process.stdout, process.stderr].map((stream) => {
    const [{ write }, listeners] = [stream, stream.rawListeners("error")];
    const texts: string[] = [];
    stream.write = (text: Uint8Array | string) => texts.push(String(text)) > 0;
    const restore = (): void => {
      stream.write = write;
      for (const added of stream.rawListeners("error"))
        if (!listeners.includes(added)) stream.off("error", added as () => void);
    };
    return { texts, restore };
  });
  const before = { ...process.env };
  Object.assign(process.env, env);
  try {
    await run();
    const [stdout = "", stderr = ""] = outputs.map(({ texts }) => texts.join(""));
    return { code: Number(process.exitCode ?? 0), stdout, stderr };
  } finally {
    for (const { restore } of outputs) restore();
    for (const name of Object.keys(env)) delete process.env[name];
    Object.assign(process.env, before);
    process.exitCode = undefined;
  }
}

/** A command of sm-agent in the test's own process. */
export const commandHere = (words: readonly string[], env: Record<string, string> = {}): Promise<Ended> =>
  endedHere(() => runCommand(words), env);

/** A clock that a test advances. */
export class FakeClock implements Clock {
  #time: number;
  #timers: { at: number; callback: () => void }[] = [];

  constructor(start = 1_800_000_000_000) {
    this.#time = start;
  }

  now(): number {
    return this.#time;
  }

  monotonic(): number {
    return this.#time;
  }

  after(ms: number, callback: () => void): () => void {
    const timer = { at: this.#time + Math.max(0, ms), callback };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  }

  /** Lets time pass, timer by timer, and promises settle in between. */
  async pass(ms: number): Promise<void> {
    const end = this.#time + ms;
    for (;;) {
      await new Promise((settle) => setImmediate(settle));
      const next = this.#timers.filter(({ at }) => at <= end).sort((a, b) => a.at - b.at)[0];
      if (next === undefined) break;
      this.#timers = this.#timers.filter((other) => other !== next);
      this.#time = Math.max(this.#time, next.at);
      next.callback();
    }
    this.#time = end;
  }

  /** A stalled process: time passes, and no timer fires until the end. */
  stall(ms: number): void {
    this.#time += ms;
  }
}

/** A TCP server on loopback with a handler for each connection. */
export async function tcpServer(
  t: Test,
  onConnection: (socket: Socket) => void,
  host = "127.0.0.1",
): Promise<{ port: number; server: Server }> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
    onConnection(socket);
  });
  await new Promise<void>((settle, reject) => server.once("error", reject).listen(0, host, settle));
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, server };
}

/** An http check with every field at its default. */
export function httpCheck(url: string, change: Partial<HttpCheck> = {}): HttpCheck {
  return {
    type: "http",
    url,
    method: "GET",
    timeout: 5000,
    follow_redirects: true,
    max_redirects: 5,
    expected_status: { kind: "range", value: { min: 200, max: 299 } },
    expected_body_contains: null,
    expected_body_absent: null,
    body_case_insensitive: false,
    expected_body_matches: null,
    expected_body_not_matches: null,
    expected_json: [],
    expected_headers: [],
    degraded_above_ms: null,
    down_above_ms: null,
    headers: {},
    body: null,
    verify_tls: true,
    basic_auth: null,
    auth_scheme: "basic",
    bearer_token: null,
    capture_failures: true,
    ...change,
  };
}

const realClock = correctedClock();

/** Lookups in real time with an empty cache. */
export function testLookups(options: Partial<LookupsOptions> & { registriesUrl: string }): RdapLookups {
  const clock = options.clock ?? realClock;
  const log = options.log ?? (() => undefined);
  return new RdapLookups({
    clock,
    log,
    userAgent: "StatusMesh/1.2.3",
    allowPrivate: true,
    cache: rdapCache(null, { clock, log }),
    ...options,
  });
}

/** A runner on real time that may reach loopback, without a limit for each host. */
export function testRunner(
  options: {
    allowPrivate?: boolean;
    clock?: Clock;
    stats?: Stats;
    log?: (level: string, msg: string) => void;
    lookup?: (name: string) => Promise<string[]>;
    rdap?: RdapLookups;
    network?: NetworkGuard;
    maxInflight?: number;
    refusalReason?: () => string | null;
    commands?: () => Commands | null;
    docker?: Place;
  } = {},
): Runner {
  const rdap = options.rdap ?? testLookups({ registriesUrl: "http://127.0.0.1:1/" });
  const runner = new Runner({
    clock: realClock,
    log: () => undefined,
    stats: new Stats(),
    allowPrivate: true,
    userAgent: "StatusMesh/1.2.3",
    ...options,
    rdap,
  });
  runner.cap.max = 1000;
  return runner;
}

/** The outcome of a run that was not abandoned. */
export async function outcomeOf(run: { done: Promise<Outcome | null> }): Promise<Outcome> {
  const outcome = await run.done;
  if (outcome === null) throw new Error("the run was abandoned");
  return outcome;
}

/**
 * The files of a spool as those of a process that can be killed: `kill` closes what it had open, and nothing is written
 * any more.
 */
export function mortalFiles(folder: string): { files: Files; kill(): Promise<void> } {
  const files = folderFiles(folder);
  const opened = new Set<SegmentFile>();
  let alive = true;
  const living = async <T>(work: () => Promise<T>): Promise<T> => {
    if (!alive) throw new Error("the process was killed");
    return await work();
  };
  return {
    files: {
      ...files,
      create: (name) =>
        living(async () => {
          const file = await files.create(name);
          opened.add(file);
          return {
            write: (bytes, position) => living(() => file.write(bytes, position)),
            sync: () => living(() => file.sync()),
            close: () => living(() => (opened.delete(file), file.close())),
          };
        }),
      rename: (from, to) => living(() => files.rename(from, to)),
      truncate: (name, size) => living(() => files.truncate(name, size)),
      remove: (name) => living(() => files.remove(name)),
    },
    async kill() {
      alive = false;
      await Promise.all([...opened].map((file) => file.close()));
    },
  };
}
