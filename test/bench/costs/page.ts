import { connect, type Socket } from "node:net";
import type { Sql } from "postgres";
import type { Loop } from "../../harness/event-loop.ts";
import { rounded, sleep } from "../measure.ts";
import type { Largest } from "./data.ts";

const readers = 24;
const rounds = 4;
const megabyte = 1_048_576;
/** A silent reader gets no more than the buffers of the kernel take: the reply is made long before that. */
const silenceMs = 3_000;

export interface PageCosts {
  /** CPU that the maintenance windows add to a computation of the page, ms. */
  windowsMs: number;
  /** Growth of memory while 24 readers that read nothing request the data of the page, MB. */
  readersMb: number;
}

export interface PageReads {
  sql: Sql;
  url: string;
  largest: Largest;
  /** Host of a page that is computed anew. */
  nextHost(): Promise<string>;
  /** Reads the data of the page at the host; returns the CPU time of the control plane, ms. */
  read(host: string): Promise<number>;
  /** What the control plane did since the last call. */
  measured(): Promise<Loop>;
}

/** What the windows of a page of 1,000 components and its slowest readers cost. Deletes the windows. */
export async function pageCosts({ sql, url, largest, nextHost, read, measured }: PageReads): Promise<PageCosts> {
  const least = async (): Promise<number> => {
    const costs: number[] = [];
    for (let n = 0; n < rounds; n++) costs.push(await read(await nextHost()));
    return Math.min(...costs);
  };
  const planned = await least();
  const host = await nextHost();
  await read(host);
  await measured();
  const sockets = await Promise.all(Array.from({ length: readers }, () => silentReader(url, host)));
  await sleep(silenceMs);
  const { grown } = await measured();
  for (const socket of sockets) socket.destroy();
  await sql`
    delete from maintenance_window_targets
    where target_id in (select target_id from status_page_components where page_id = ${largest.pages[0]!.id})`;
  return { windowsMs: rounded(planned - (await least()), 0), readersMb: rounded(grown / megabyte, 1) };
}

/** A connection that has requested the data of a page and never reads. */
function silentReader(url: string, host: string): Promise<Socket> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const socket = connect({ host: hostname, port: Number(port) }, () => {
      socket.pause();
      socket.write(`GET /api/public/v1/status HTTP/1.1\r\nHost: ${host}\r\n\r\n`, () => resolve(socket));
    });
    socket.on("error", reject);
  });
}
