import { type ChildProcess, spawn, type SpawnOptions } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import type { Teardown } from "./folder.ts";

const isOpen = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.on("connect", () => resolve(true)).on("error", () => resolve(false));
    socket.on("connect", () => socket.destroy());
  });

/**
 * Starts a server in the foreground and waits until it listens on all `ports` of loopback; it is ended with the test.
 * Throws with its output where it ends before.
 */
export async function startServer(
  t: Teardown,
  [file, ...args]: readonly string[],
  { ports, endWith = "SIGTERM", ...options }: SpawnOptions & { ports: readonly number[]; endWith?: NodeJS.Signals },
): Promise<ChildProcess> {
  const server = spawn(file!, args, { ...options, stdio: ["pipe", "pipe", "pipe"] });
  let output = "";
  for (const stream of [server.stdout!, server.stderr!])
    stream.on("data", (text: Buffer) => (output += text.toString()));
  const ended = once(server, "exit");
  t.teardown(async () => {
    if (server.exitCode === null && server.signalCode === null) server.kill(endWith);
    await ended;
  });
  for (const port of ports)
    for (let tries = 0; !(await isOpen(port)); tries++) {
      if (server.exitCode !== null || tries === 200) throw new Error(`${file} does not listen on ${port}: ${output}`);
      await sleep(50);
    }
  return server;
}
