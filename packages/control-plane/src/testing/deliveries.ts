import type { Sql } from "postgres";
import { Semaphore } from "@statusmesh/shared/semaphore";
import type { Ctx, System } from "../platform/context.ts";
import { channelOutbound, roundKinds } from "../alerting/channels/sending/service.ts";
import { openHub } from "../platform/db/notify.ts";
import { writeDeliveries } from "../alerting/deliveries/outbox/outbox.ts";
import type { OutboxNotice } from "../alerting/deliveries/outbox/outbox-queries.ts";
import { type Sending, startDeliverer } from "../alerting/deliveries/sending/deliverer.ts";
import { openRecorder } from "../alerting/deliveries/sending/recorder.ts";
import type { Teardown } from "./database.ts";
import { type SinkAnswer, startSink } from "./sink.ts";
import { allowPrivate, newOrg, openWorld, type World } from "./world.ts";

export interface OwnedWorld extends World {
  owner: Ctx;
}

interface Row {
  id: string;
  state: string;
  reason: string;
  attempt_count: number;
  next_attempt_at: Date | null;
  leased_until: Date | null;
  delivered_at: Date | null;
  channel_id: string | null;
  channel_name: string;
  message_id: string | null;
}

const fine: SinkAnswer = (_request, reply) => void reply.writeHead(200).end("ok");

/** A sink, and what tests of deliveries do with it. */
export async function deliveryScene(t: Teardown) {
  const sink = await startSink(t);
  return {
    sink,

    /** An empty database with one organisation, and a sink that accepts everything. */
    async world(t: Teardown, env: Record<string, string> = {}): Promise<OwnedWorld> {
      const empty = await openWorld(t, { env });
      sink.received.length = 0;
      sink.answer = fine;
      const system = allowPrivate(empty.system);
      return { ...empty, system, owner: await newOrg(system) };
    },

    /** A deliverer on a pool of its own, as on another replica. */
    deliverer(t: Teardown, { pool, system }: OwnedWorld, { isAlone = false } = {}) {
      const sql = pool();
      const running = startDeliverer({ ...system, sql }, openHub(sql, system.log), {
        isAlone,
        ca: sink.ca,
        sharedTime: async () => system.clock.now(),
      });
      t.teardown(() => running.stop());
      return running;
    },

    write: ({ owner }: OwnedWorld, notices: readonly OutboxNotice[]) =>
      writeDeliveries(owner.sql, owner.clock.now(), notices),

    /** Moves the clock, and wakes the deliverers. */
    async later({ sql, clock }: OwnedWorld, ms: number): Promise<void> {
      clock.advance(ms);
      await sql.notify("sm_deliveries", "");
    },

    rows,
    row: async (world: OwnedWorld): Promise<Row> => (await rows(world))[0]!,

    attempts: async ({ sql }: OwnedWorld) => [
      ...(await sql<{ number: number; ok: boolean; status: number | null; error: string | null }[]>`
        select number, ok, status, error from delivery_attempts order by delivery_id, number`),
    ],

    /** Reasons of the notices that the sink got, in order. */
    receivedReasons: (): string[] =>
      sink.received.map(({ body }) => (JSON.parse(body.toString()) as { reason: string }).reason),
  };
}

/** What a process sends with, for tests that claim themselves. */
export function sendingOf(world: OwnedWorld, ca: string, { sql = world.sql as Sql, secs = 30 } = {}): Sending {
  const system: System = { ...world.system, sql };
  const { signal } = new AbortController();
  return {
    system,
    stopping: signal,
    interrupt: signal,
    transport: channelOutbound(system, { ca }),
    rounds: { kinds: roundKinds(), secs },
    sharedTime: async () => system.clock.now(),
    turns: new Semaphore(1),
    recorder: openRecorder(system),
    watch: undefined,
  };
}

const rows = ({ sql }: OwnedWorld) => sql<Row[]>`
  select id, state, reason, attempt_count, next_attempt_at, leased_until, delivered_at, channel_id, channel_name,
    message_id
  from deliveries order by created_at, id`;
