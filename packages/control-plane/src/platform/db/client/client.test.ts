import { once } from "node:events";
import * as net from "node:net";
import { constants, PerformanceObserver } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import type { Sql } from "postgres";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { until } from "../../../testing/clock.ts";
import { openTestDatabase, type Teardown } from "../../../testing/database.ts";
import { commitBehind, connectionsOf, openClient } from "./driver.ts";
import { openPool } from "./connect.ts";

/* Changes of infra/patches to the database client. Each test fails with the published client. */

/** Listens on a loopback port; `onSocket` gets every connection. Returns the port and the number of connections. */
async function listen(t: Teardown, onSocket: (socket: net.Socket) => void) {
  const sockets = new Set<net.Socket>();
  const seen = { port: 0, connections: 0, cut: () => sockets.forEach((socket) => socket.destroy()) };
  const server = net.createServer((socket) => {
    seen.connections++;
    sockets.add(socket.on("error", () => {}).on("close", () => sockets.delete(socket)));
    onSocket(socket);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.teardown(() => (seen.cut(), server.close()));
  seen.port = (server.address() as net.AddressInfo).port;
  return seen;
}

const codeOf = (error: unknown): string => String((error as { code?: unknown }).code);

t.test("a proxy that accepts and closes fails queries at once, with few connections", async (t) => {
  const proxy = await listen(t, (socket) => socket.destroy());
  const sql = openPool({ url: `postgres://u:p@127.0.0.1:${proxy.port}/sm` }, { max: 3 });
  t.teardown(() => sql.end({ timeout: 0 }));
  for (const round of [1, 2]) {
    const failed = await Promise.all(Array.from({ length: 50 }, () => sql`select 1`.then(() => "ok", codeOf)));
    t.strictSame(
      failed.filter((code) => !/^(CONNECTION_CLOSED|ECONNRESET|EPIPE)$/.test(code)),
      [],
      `round ${round}`,
    );
  }
  await sql.begin((tx) => tx`select 1`).catch(() => {});
  t.ok(proxy.connections <= 10, `${proxy.connections} connections`);
});

t.test("a query to a silent server ends, also while the pool ends", async (t) => {
  const proxy = await listen(t, () => {});
  const sql = openPool({ url: `postgres://u:p@127.0.0.1:${proxy.port}/sm` }, { max: 2 });
  const failed = Array.from({ length: 5 }, () => sql`select 1`.then(() => "ok", codeOf));
  t.strictSame([...new Set(await Promise.all(failed))], ["CONNECT_TIMEOUT"]);
  const last = sql`select 1`.then(() => "ok", codeOf);
  while (proxy.connections < 3) await sleep(10);
  await sql.end({ timeout: 0 });
  t.equal(await last, "CONNECTION_DESTROYED");
});

t.test("a query goes to the connection used last", async (t) => {
  const { pool } = await openTestDatabase(t);
  const sql = pool(4);
  const backend = async () =>
    (await sql<{ pid: number }[]>`select pg_backend_pid() as pid from pg_sleep(0.05)`)[0]!.pid;
  const burst = await Promise.all(Array.from({ length: 4 }, backend));
  t.equal(new Set(burst).size, 4, "four at once have a connection each");
  const later = new Set<number>();
  for (let n = 0; n < 5; n++) later.add(await backend());
  t.equal(later.size, 1, "the others are free to time out");
});

t.test("a finished query is garbage for the next minor collection", async (t) => {
  const { pool } = await openTestDatabase(t);
  const sql = pool(1);
  let major = 0;
  const observer = new PerformanceObserver((list) => {
    const collections = list.getEntries() as unknown as { detail: { kind: number } }[];
    major += collections.filter(({ detail }) => detail.kind === constants.NODE_PERFORMANCE_GC_MAJOR).length;
  });
  observer.observe({ entryTypes: ["gc"] });
  t.teardown(() => observer.disconnect());
  for (let n = 0; n < 3000; n++) await sql`select ${Array.from({ length: 3000 }, (_, m) => n * m)}::bigint[] is null`;
  await sleep(20);
  t.ok(major < 10, `${major} full collections; the published client needs 22`);
});

t.test("a transaction that begins behind a hundred queries has its connection", async (t) => {
  const { sql, pool } = await openTestDatabase(t);
  await sql`create table written (by text)`;
  const one = pool(1);
  await one`select 1`;
  const queries = Array.from({ length: 100 }, () => one`select 1 as one`.execute());
  const rolledBack = one.begin(async (tx) => {
    await tx`insert into written values ('undone')`;
    throw new Error("changed its mind");
  });
  await t.rejects(rolledBack, { message: "changed its mind" });
  t.equal((await Promise.all(queries)).length, 100);
  t.strictSame([...(await one`select * from written`)], []);
});

t.test("a lost transaction does not end another one", async (t) => {
  const { sql, pool } = await openTestDatabase(t);
  await sql`create table written (by text)`;
  const one = pool(1);
  let proceed = () => {};
  const lost = one.begin(async (tx) => {
    const [row] = await tx<{ pid: number }[]>`select pg_backend_pid() as pid`;
    await sql`select pg_terminate_backend(${row!.pid})`;
    await new Promise<void>((resolve) => (proceed = resolve));
    return "done";
  });
  t.match(codeOf(await lost.catch((error: unknown) => error)), /^(57P01|CONNECTION_CLOSED)$/);
  const other = one.begin(async (tx) => {
    await tx`insert into written values ('other')`;
    // The function of the lost transaction returns, and would send COMMIT.
    proceed();
    await sleep(50);
    throw new Error("changed its mind");
  });
  await t.rejects(other, { message: "changed its mind" });
  t.strictSame([...(await sql`select * from written`)], []);
});

/** What the only connection of a pool does from now on, sending or receiving, each once however many packets. */
function flightsOf(pool: Sql): string[] {
  const flights: string[] = [];
  const note = (what: string) => void (flights.at(-1) === what || flights.push(what));
  const socket = connectionsOf(pool)[0]!.peek().socket!;
  const write = socket.write.bind(socket) as (...args: unknown[]) => boolean;
  Object.assign(socket, { write: (...args: unknown[]) => (note("sent"), write(...args)) });
  socket.on("data", () => note("received"));
  return flights;
}

t.test("a transaction that begins ahead sends BEGIN with its reads, and COMMIT with its writes", async (t) => {
  const { sql, pool } = await openTestDatabase(t);
  await sql`create table written (by text unique)`;
  const one = pool(1);
  await one`select 1`;
  const flights = flightsOf(one);
  const began = await one.begin("ahead", async (tx) => {
    const [row] = await tx<{ began: Date }[]>`select now() as began`;
    const write = tx`insert into written values ('first')`.execute();
    commitBehind(tx);
    await write;
    return row!.began;
  });
  t.ok(began instanceof Date);
  t.strictSame(flights, ["sent", "received", "sent", "received"]);
  t.strictSame([...(await one`select * from written`)], [{ by: "first" }]);

  const more = one.begin("ahead", async (tx) => {
    commitBehind(tx);
    await tx`select 1`;
    await tx`insert into written values ('behind')`;
  });
  await t.rejects(more, { code: "TRANSACTION_ENDED" });
  const failed = one.begin("ahead", async (tx) => {
    await tx`select 1`;
    const writes = [tx`insert into written values ('second')`, tx`insert into written values ('first')`];
    const done = Promise.all(writes);
    commitBehind(tx);
    await done;
  });
  await t.rejects(failed, { code: "23505" });
  t.strictSame([...(await one`select * from written`)], [{ by: "first" }], "the COMMIT rolled it back");
  const unsendable = one.begin("ahead", async (tx) => {
    await tx`select 1`;
    const writes = [tx`insert into written values ('third')`, tx`insert into written values (${undefined as never})`];
    const done = Promise.all(writes);
    commitBehind(tx);
    await done;
  });
  await t.rejects(unsendable, { code: "UNDEFINED_VALUE" });
  t.strictSame([...(await one`select * from written`)], [{ by: "first" }], "the server saw one of two, and no COMMIT");
});

t.test("a transaction whose BEGIN fails behind its reads writes nothing", async (t) => {
  const { sql, pool } = await openTestDatabase(t);
  await sql`create table written (by text)`;
  const one = pool(1);
  // PostgreSQL refuses a BEGIN of an unknown kind.
  let ran = false;
  const refused = one.begin("ahead of something", async (tx) => {
    ran = true;
    await tx`select 1`;
    await tx`insert into written values ('outside of a transaction')`;
  });
  await t.rejects(refused, { code: "42601" });
  t.equal(ran, true, "the reads go with it");
  t.strictSame([...(await one`select * from written`)], []);
});

t.test("a query that cannot be sent fails alone, also behind another", async (t) => {
  const { pool } = await openTestDatabase(t);
  const one = pool(1);
  const select = (value: unknown) => one`select ${value as string}::timestamptz is not null as known`;
  for (const unfit of [undefined, new Date(Number.NaN)]) {
    t.equal(await select(unfit).then(() => "sent", String), await select(unfit).then(() => "sent", String), "alone");
    const [before, refused, behind] = [select(new Date()), select(unfit).then(() => "sent", String), select(null)];
    t.strictSame([...(await before)], [{ known: true }]);
    t.match(await refused, /UNDEFINED_VALUE|Invalid time value/);
    t.strictSame([...(await behind)], [{ known: false }]);
  }
});

t.test("a query has its rows after one that failed in the middle of its own", async (t) => {
  const { pool } = await openTestDatabase(t);
  const one = pool(1);
  const failing = () => one`select 1 / (4 - n) from generate_series(1, 10) n`.then(() => "ok", codeOf);
  const rows = () => one<{ n: number }[]>`select n from generate_series(1, 3) n`;
  const [failed, behind] = await Promise.all([failing(), rows()]);
  t.equal(failed, "22012");
  t.strictSame([...behind], [{ n: 1 }, { n: 2 }, { n: 3 }], "behind it");
  await failing();
  t.strictSame([...(await rows())], [{ n: 1 }, { n: 2 }, { n: 3 }], "and later");
});

t.test("an error that ends a connection does not fail the next query", async (t) => {
  const { sql, pool } = await openTestDatabase(t);
  const one = pool(1);
  for (let n = 0; n < 5; n++) {
    const [row] = await one<{ pid: number }[]>`select pg_backend_pid() as pid`;
    const sleeping = one`select pg_sleep(30)`.then(() => "ok", codeOf);
    await until(async () => {
      const [it] = await sql`select state from pg_stat_activity where pid = ${row!.pid} and query like '%pg_sleep%'`;
      return it?.["state"] === "active";
    }, "the statement to run");
    await sql`select pg_terminate_backend(${row!.pid})`;
    t.equal(await sleeping, "57P01");
    t.strictSame([...(await one`select 1 as one`)], [{ one: 1 }]);
  }
});

t.test("a connection of its own that is lost fails its queries", async (t) => {
  const { sql, pool } = await openTestDatabase(t);
  const own = await pool(1).reserve();
  const [row] = await own<{ pid: number }[]>`select pg_backend_pid() as pid`;
  await sql`select pg_terminate_backend(${row!.pid})`;
  const lost = /^(57P01|CONNECTION_CLOSED|ECONNRESET|EPIPE)$/;
  for (let n = 0; n < 3; n++) matchObject(t, await own`select 1`.then(() => "ok", codeOf), lost);
});

t.test("a connection that ends while it asks for the types of arrays", async (t) => {
  const { sql } = await openTestDatabase(t);
  const { path, database, user: username, pass } = sql.options as unknown as Record<string, string>;
  const fields = ["SFATAL", "C57P01", "Mterminated"].map((field) => `${field}\0`).join("");
  const fatal = Buffer.from(`E0000${fields}\0`);
  fatal.writeInt32BE(fatal.length - 1, 1);
  const proxy = await listen(t, (socket) => {
    const first = proxy.connections === 1;
    const server = net.connect(path!).on("error", () => {});
    server.on("close", () => socket.destroy()).pipe(socket);
    socket.on("close", () => server.destroy());
    socket.on("data", (bytes) => {
      if (first && bytes.includes("typarray")) socket.end(fatal);
      else server.write(bytes);
    });
  });
  const options = { host: "127.0.0.1", port: proxy.port, database, username, password: pass, max: 1 };
  const client = openClient(options);
  t.teardown(() => client.end({ timeout: 0 }));
  t.equal(await client`select 1`.then(() => "ok", codeOf), "57P01", "the query that opened it learns why");
  t.strictSame([...(await client`select ${[1, 2]}::int[] as list`)], [{ list: [1, 2] }]);
});

t.test("a connection goes on after a COPY that was read slowly, or refused at its end", async (t) => {
  const { pool } = await openTestDatabase(t);
  const one = pool(1);
  for (let n = 0; n < 5; n++) {
    const rows = await one`copy (select repeat('x', 1000) from generate_series(1, 300)) to stdout`.readable();
    await sleep(20);
    let bytes = 0;
    for await (const chunk of rows) bytes += (chunk as Buffer).length;
    t.equal(bytes, 300 * 1001);
    t.strictSame([...(await one`select 1 as one`)], [{ one: 1 }]);
  }
  await one`create table parent (id int primary key)`;
  await one`create table child (id int references parent)`;
  const written = await one`copy child from stdin`.writable();
  const failed = once(written, "error");
  written.end("7\n");
  matchObject(t, await failed, [{ code: "23503" }]);
  t.strictSame([...(await one`select 1 as one`)], [{ one: 1 }]);
});

t.test("of several hosts the first that takes writes is used, and tried first from then on", async (t) => {
  const { sql } = await openTestDatabase(t);
  const { path, database, user: username, pass } = sql.options as unknown as Record<string, string>;
  const through = (socket: net.Socket): void => {
    const server = net.connect(path!);
    for (const [from, to] of [
      [socket, server],
      [server, socket],
    ] as const)
      from
        .on("error", () => {})
        .on("close", () => to.destroy())
        .pipe(to);
  };
  const closing = await listen(t, (socket) => socket.destroy());
  const silent = await listen(t, () => {});
  const good = await listen(t, through);
  const openWith = (max: number, ...ports: number[]) => {
    // The declared options have one port only.
    const options = {
      database,
      username,
      password: pass,
      max,
      connect_timeout: 4,
      host: ports.map(() => "127.0.0.1"),
      port: ports,
      target_session_attrs: "read-write",
    };
    const client = openClient(options);
    t.teardown(() => client.end({ timeout: 0 }));
    return client;
  };
  const open = (...ports: number[]) => openWith(1, ...ports);
  const client = open(1, closing.port, silent.port, good.port);
  t.strictSame([...(await client`select 1 as one`)], [{ one: 1 }]);
  good.cut();
  // The client may not have noticed yet.
  await until(() => client`select 2 as two`.catch(() => null), "a query through the next connection");
  t.strictSame([closing.connections, silent.connections, good.connections], [1, 1, 2]);
  // The second connection learns that the first host is wrong only after the first connection has found the right one.
  const late = await listen(t, (socket) => void setTimeout(() => socket.destroy(), late.connections === 1 ? 0 : 300));
  const pair = openWith(2, late.port, good.port);
  const rows = await Promise.all([pair`select 1 as n`, pair`select 2 as n`]);
  t.strictSame(rows.flat(), [{ n: 1 }, { n: 2 }]);

  const failed = await open(closing.port, 1)`select 1`.then(() => "ok", codeOf);
  t.match(failed, /^(CONNECTION_CLOSED|ECONNREFUSED)$/, "without a good one the query fails");

  await sql.unsafe(`alter database ${database} set default_transaction_read_only = on`);
  const readOnly = open(good.port);
  t.equal(await readOnly`select 1`.then(() => "ok", codeOf), "TARGET_SESSION_ATTRS");
});
