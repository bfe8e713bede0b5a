import { createServer, connect, type Server, type Socket } from "node:net";
import { join } from "node:path";
import type { TestDatabase } from "./database.ts";
import { type Teardown, tempFolder } from "./folder.ts";

/** A way to a database that can be held (connections wait) and shut (they are cut and refused), while the others of the run use the server. */
export interface Gate {
  /** The database, to be reached through the gate. */
  readonly database: TestDatabase;
  hold(): void;
  shut(): Promise<void>;
  open(): Promise<void>;
}

/** A Unix socket before that of the test database. */
export async function gateTo(t: Teardown, behind: TestDatabase): Promise<Gate> {
  const folder = tempFolder(t, "g");
  const path = (of: string) => join(of, ".s.PGSQL.5432");
  const sockets = new Set<Socket>();
  const waiting: (() => void)[] = [];
  let held = false;
  let server: Server | null = null;
  const pass = (from: Socket): void => {
    const to = connect(path(behind.env.PGHOST));
    for (const [one, other] of [
      [from, to],
      [to, from],
    ] as const) {
      sockets.add(one);
      one.on("error", () => undefined);
      one.on("close", () => {
        sockets.delete(one);
        other.destroy();
      });
      one.pipe(other);
    }
  };
  const open = async (): Promise<void> => {
    held = false;
    for (const go of waiting.splice(0)) go();
    if (server !== null) return;
    const opened = createServer((socket) => {
      socket.on("error", () => undefined);
      if (held) waiting.push(() => pass(socket));
      else pass(socket);
    });
    server = opened;
    await new Promise<void>((resolve) => opened.listen(path(folder), resolve));
  };
  const shut = async (): Promise<void> => {
    const closing = server;
    server = null;
    const closed = new Promise<void>((resolve) => (closing === null ? resolve() : closing.close(() => resolve())));
    for (const socket of sockets) socket.destroy();
    await closed;
  };
  await open();
  t.teardown(shut);
  return { database: { ...behind, env: { ...behind.env, PGHOST: folder } }, hold: () => (held = true), shut, open };
}
