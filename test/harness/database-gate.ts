import { createServer, connect, type Server, type Socket } from "node:net";
import { join } from "node:path";
import type { TestDatabase } from "./database.ts";
import { type Teardown, tempFolder } from "./folder.ts";

/**
 * A proxy to a database that fails like a network does, while other tests use the server:
 * - open: connections pass
 * - hold: new connections wait until it opens; existing ones continue
 * - refuse: new connections are accepted and closed, like those to a proxy without a server; the old ones are cut
 * - shut: new connections are refused, and the old ones are cut
 * - mute: no byte passes in either direction, and nothing is closed; new connections are accepted
 * - strand: existing connections stay mute, new ones pass
 */
export interface Gate {
  /** The database, to be reached through the gate. */
  readonly database: TestDatabase;
  /** Connections so far. */
  readonly connections: () => number;
  open(): Promise<void>;
  hold(): void;
  refuse(): Promise<void>;
  shut(): Promise<void>;
  mute(): void;
  strand(): Promise<void>;
}

/** A Unix socket before that of the test database. */
export async function gateTo(t: Teardown, behind: TestDatabase): Promise<Gate> {
  const folder = tempFolder(t, "g");
  const path = (of: string) => join(of, ".s.PGSQL.5432");
  const sockets = new Set<Socket>();
  const waiting: (() => void)[] = [];
  let mode: "open" | "hold" | "refuse" | "mute" = "open";
  let generation = 0;
  let count = 0;
  let server: Server | null = null;

  const pass = (from: Socket): void => {
    const own = generation;
    const to = connect(path(behind.env.PGHOST));
    for (const [one, other] of [
      [from, to],
      [to, from],
    ] as const) {
      sockets.add(one);
      one.on("error", () => undefined);
      one.on("data", (bytes) => {
        if (mode === "mute" || own !== generation) return;
        one.pause();
        other.write(bytes, () => one.resume());
      });
      one.on("close", () => {
        sockets.delete(one);
        if (own === generation) other.destroy();
      });
    }
  };
  const cut = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  const listen = async (): Promise<void> => {
    if (server !== null) return;
    const opened = createServer((socket) => {
      count++;
      socket.on("error", () => undefined);
      if (mode === "refuse") socket.destroy();
      else if (mode === "hold") waiting.push(() => pass(socket));
      else pass(socket);
    });
    server = opened;
    await new Promise<void>((resolve) => opened.listen(path(folder), resolve));
  };
  const open = async (): Promise<void> => {
    mode = "open";
    for (const go of waiting.splice(0)) go();
    await listen();
  };
  const shut = async (): Promise<void> => {
    const closing = server;
    server = null;
    const closed = new Promise<void>((resolve) => (closing === null ? resolve() : closing.close(() => resolve())));
    cut();
    await closed;
  };
  await open();
  t.teardown(shut);
  return {
    database: { ...behind, env: { ...behind.env, PGHOST: folder } },
    connections: () => count,
    open,
    hold: () => void (mode = "hold"),
    async refuse() {
      mode = "refuse";
      cut();
      await listen();
    },
    shut,
    mute: () => void (mode = "mute"),
    async strand() {
      generation++;
      await open();
    },
  };
}
