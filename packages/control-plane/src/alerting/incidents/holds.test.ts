import fc from "fast-check";
import t from "tap";
import { newId } from "@statusmesh/shared/ids";
import type { System } from "../../platform/context.ts";
import { countFailingSlots } from "../../monitoring/results/engine.ts";
import { updateTarget } from "../../monitoring/targets/service.ts";
import { minute, noon } from "../../testing/clock.ts";
import { openOutages } from "../../testing/outages.ts";
import type { ActiveHours } from "../channels/schema.ts";
import { createChannel } from "../channels/service.ts";
import { isHeldDue, releaseHeld } from "../deliveries/held.ts";
import { createSnooze, endSnooze, listSnoozes } from "../snoozes/service.ts";
import { isMaintenanceDue } from "./engine.ts";
import { followMaintenance } from "./maintenance.ts";
import { explainIncident } from "./service.ts";

/*
 * Random graphs of monitors, orders of events and clocks, on two replicas. Whatever holds notices (snoozes,
 * maintenance, hours, dependencies), every incident that lasts is told to every channel exactly once, or is listed as
 * held with the reason; and no recovery reaches a channel that was not told.
 */

const world = await openOutages(t);
const { sql, clock, system, owner, monitor, report, maintain, incidents } = world;
const replicas: System[] = [system, { ...system, sql: world.pool(4) }];

/** Monitors of a graph: each depends on some before it. */
const size = 4;
const graphs = fc.array(fc.subarray([0, 1, 2], { maxLength: 2 }), { minLength: size, maxLength: size });

type Act =
  | { do: "report"; at: number; verdicts: string }
  | { do: "snooze" | "maintain"; at: number; minutes: number }
  | { do: "wake" | "pause" | "cut"; at: number }
  | { do: "wait"; minutes: number };

const at = fc.nat({ max: size - 1 });
const minutes = fc.integer({ min: 1, max: 40 });
const act: fc.Arbitrary<Act> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("report" as const),
      at,
      verdicts: fc.constantFrom("FF", "F", "P", "PP", "FFPP"),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom("snooze" as const, "maintain" as const), at, minutes }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom("wake" as const, "pause" as const, "cut" as const), at }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("wait" as const), minutes }) },
);

/** The jobs of both replicas, at once. */
async function jobs(): Promise<void> {
  for (let turn = 0; turn < 2; turn++)
    await Promise.all(
      replicas.map(async (replica) => {
        if (await isMaintenanceDue(replica)) await followMaintenance(replica);
        if (await isHeldDue(replica)) await releaseHeld(replica, countFailingSlots);
      }),
    );
}

async function play(targets: readonly string[], one: Act): Promise<void> {
  if (one.do === "wait") return clock.advance(one.minutes * minute);
  const target = targets[one.at]!;
  if (one.do === "report") await report(target, one.verdicts);
  else if (one.do === "snooze")
    await createSnooze(owner, {
      scope: { target_ids: [target] },
      until: new Date(clock.now() + one.minutes * minute).toISOString(),
    });
  else if (one.do === "maintain") await maintain(target, 0, one.minutes * minute);
  else if (one.do === "wake")
    for (const { id } of (await listSnoozes(owner, { limit: 100, offset: 0 })).items) await endSnooze(owner, id);
  else if (one.do === "cut") await updateTarget(owner, target, { depends_on: [] });
  else {
    await updateTarget(owner, target, { enabled: false });
    await updateTarget(owner, target, { enabled: true });
  }
}

/** Every delivery of a target's incidents that is to reach somebody, by channel. */
const told = async (targetId: string) =>
  await sql<{ incident: string; channel: string; reasons: string[]; held: string[] }[]>`
    select d.incident_id as incident, d.channel_id as channel,
      array_agg(d.reason order by d.created_at, d.id) filter (where d.state in ('pending', 'delivered')) as reasons,
      array_agg(d.held_by) filter (where d.state = 'held') as held
    from deliveries d join incidents i on i.id = d.incident_id where i.target_id = ${targetId} group by 1, 2`;

/** What is wrong now; null where all is well. */
async function fault(targets: readonly string[], channels: readonly string[]): Promise<string | null> {
  for (const target of targets) {
    const rows = await told(target);
    for (const { id, state } of await incidents(target)) {
      const explained = await explainIncident(owner, id);
      for (const channel of channels) {
        const row = rows.find((one) => one.incident === id && one.channel === channel);
        const reasons = (row?.reasons ?? []).filter((reason) => reason !== "reminder" && reason !== "escalated");
        const open = reasons.reduce((sum, reason) => sum + (reason === "resolved" ? -1 : 1), 0);
        if (!reasons.every((reason, n) => (reason === "resolved") === (n % 2 === 1)))
          return `${state} incident told as ${reasons.join()}`;
        const isHeld = explained.held.length > 0 || (row?.held ?? []).length > 0;
        if (state === "open" && open !== 1 && !isHeld)
          return `an open incident is neither told nor held: ${reasons.join()}`;
      }
    }
  }
  return null;
}

t.test("what lasts is told once to every channel, or is held with its reason", async (t) => {
  const night: ActiveHours = {
    timezone: "UTC",
    days: ["mo", "tu", "we", "th", "fr", "sa", "su"],
    from: "14:00",
    to: "13:30",
    outside: "hold",
  };
  const config = { type: "webhook", url: "https://hooks.example.org/", headers: {} } as const;
  const property = fc.asyncProperty(graphs, fc.array(act, { minLength: 5, maxLength: 25 }), async (graph, acts) => {
    clock.at = noon;
    await sql`delete from snoozes`;
    await sql`update incidents set reminder_due_at = null`;
    const hours = await createChannel(owner, { name: newId(), config, active_hours: night });
    const channels = [world.channelId, hours.id];
    const targets: string[] = [];
    for (const [n, parents] of graph.entries())
      targets.push(
        await monitor({
          interval: 60,
          alerts: channels.map((channel_id) => ({ channel_id })),
          depends_on: parents.filter((parent) => parent < n).map((parent) => targets[parent]!),
        }),
      );
    for (const target of targets) await report(target, "PP");
    for (const one of acts) {
      await play(targets, one);
      await jobs();
      const found = await fault(targets, channels);
      if (found !== null) throw new Error(found);
    }
    // In the end nothing holds any more: every hour has begun, and everything is checked.
    clock.at = noon + 5 * 60 * minute;
    await sql`delete from snoozes`;
    await jobs();
    for (let turn = 0; turn < 3; turn++) {
      for (const target of targets) {
        const open = (await incidents(target)).some(({ state }) => state === "open");
        await report(target, open ? "F" : "P");
      }
      await jobs();
    }
    const found = await fault(targets, channels);
    if (found !== null) throw new Error(`at the end: ${found}`);
  });
  await fc.assert(property, { numRuns: Number(process.env["SM_TEST_RUNS"] ?? 12), endOnFailure: false });
  t.pass("all histories");
});
