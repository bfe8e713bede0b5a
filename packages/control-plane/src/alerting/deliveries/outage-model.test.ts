import fc from "fast-check";
import t from "tap";
import { protocolVersion } from "@statusmesh/shared/protocol/agent-protocol";
import type { System } from "../../platform/context.ts";
import { countFailingSlots } from "../../monitoring/results/slots/engine.ts";
import { openIngest } from "../../monitoring/pipeline/ingest.ts";
import { createTarget } from "../../monitoring/targets/write/service.ts";
import { minute, noon, second } from "../../testing/clock.ts";
import { deliveryScene, type OwnedWorld } from "../../testing/deliveries.ts";
import { openPager } from "../../testing/pager.ts";
import { histories } from "../../testing/histories.ts";
import { noteBegins, paceFault, readMessage, type Received, Replicas } from "../../testing/replicas.ts";
import { admit, agentResult } from "../../testing/scene.ts";
import { newAgent } from "../../testing/world.ts";
import { createChannel, isWithin, updateChannel } from "../channels/service.ts";
import type { ActiveHours } from "../channels/schema.ts";
import { followMaintenance, isFlappingDue, isMaintenanceDue, settleFlapping } from "../incidents/engine.ts";
import { acknowledgeIncident } from "../incidents/lifecycle/service.ts";
import { explainIncident } from "../incidents/explanation/service.ts";
import { listIncidents } from "../incidents/service.ts";
import { createSnooze, endSnooze, listSnoozes } from "../snoozes/service.ts";
import { isHeldDue, releaseHeld } from "./outbox/held.ts";

/*
 * From results to receivers: monitors that depend on each other, flap, are snoozed and acknowledged, on two processes
 * that are killed between their statements, while receivers fail or take a message without saying so. Two channels for
 * people, of which one has hours, and a pager. Whatever happens:
 *
 *   an incident that is open at the end was told to each channel for people, or its explanation says what holds it;
 *   a recovery is told only of what was told to be open, and once;
 *   a message is repeated only after a kill, a failure or a lost answer, and no notice is in two messages;
 *   the pace of a channel holds, and nothing begins outside its hours but what has waited for a round;
 *   changes of what flaps stay away from people;
 *   the pager has an open alert for each open incident that it was told of, none for what is over, and pages once for
 *   each key and time that it opens; its texts change at most every 30 s.
 */

const { sink, world } = await deliveryScene(t);
const secs = 30;
const hours: ActiveHours = {
  timezone: "UTC",
  days: ["mo", "tu", "we", "th", "fr", "sa", "su"],
  from: "13:00",
  to: "13:20",
  outside: "hold",
};
const plans = [
  { name: "gateway", host: "gw.example.org", severity: "major", parent: null },
  { name: "behind", host: "gw.example.org", severity: "major", parent: 0 },
  { name: "pay", host: "pay.example.org", severity: "critical", parent: null },
  { name: "shop", host: "shop.example.org", severity: "major", parent: null },
] as const;

type Act =
  | { do: "report"; at: number; verdicts: string }
  | { do: "snooze"; at: number; minutes: number }
  | { do: "wake" }
  | { do: "acknowledge"; at: number }
  | { do: "wait"; secs: number }
  | { do: "kill"; statement: number; after: boolean }
  | { do: "answer"; with: "error" | "cut" };

const at = fc.nat({ max: plans.length - 1 });
const act: fc.Arbitrary<Act> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("report" as const),
      at,
      verdicts: fc.constantFrom("F", "F", "FF", "P", "P", "FP", "FPFPF", "PFP"),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant("wait" as const), secs: fc.constantFrom(1, 4, 11, 31, 130, 400, 1_000) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant("snooze" as const), at, minutes: fc.integer({ min: 1, max: 15 }) }),
  },
  { weight: 1, arbitrary: fc.constant({ do: "wake" as const }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("acknowledge" as const), at }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant("kill" as const), statement: fc.nat({ max: 40 }), after: fc.boolean() }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("answer" as const), with: fc.constantFrom("error", "cut") }) },
);

const jobs = [
  { isDue: isMaintenanceDue, run: followMaintenance },
  { isDue: isFlappingDue, run: settleFlapping },
  { isDue: isHeldDue, run: async (system: System) => await releaseHeld(system, countFailingSlots) },
];

/** What all histories share. */
async function openScene() {
  const w = await world(t, {
    SM_ALERTS__ROUND_SECS: String(secs),
    SM_CHANNELS__ENDPOINTS__PAGERDUTY: `${sink.url}/pager`,
  });
  await noteBegins(w.sql);
  const agent = await newAgent(w.system, "eu");
  const ingest = openIngest(async () => {});
  return {
    w,
    replicas: new Replicas(w, { ca: sink.ca, secs, jobs }),
    async report(targetId: string, isUp: boolean) {
      const result = agentResult(targetId, w.clock.now(), { status: isUp ? "up" : "down" });
      await admit(w.system, "eu", [result]);
      await ingest({ ...agent, ...w.system }, { protocol: protocolVersion, results: [result], runs: [] });
    },
  };
}

class History {
  readonly scene: Awaited<ReturnType<typeof openScene>>;
  readonly w: OwnedWorld;
  readonly received: Received[] = [];
  readonly pager: ReturnType<typeof openPager>;
  targets: string[] = [];
  faults = 0;
  kills = 0;

  constructor(scene: Awaited<ReturnType<typeof openScene>>) {
    this.scene = scene;
    this.w = scene.w;
    this.pager = openPager(() => this.w.clock.now());
  }

  async begin(): Promise<void> {
    const { w, scene } = this;
    scene.replicas.restart();
    await w.sql`truncate deliveries, channel_rounds, incidents, targets, snoozes, channel_alerts, begun cascade`;
    await w.sql`delete from channels`;
    w.clock.at = noon;
    const channels: string[] = [];
    for (const name of ["chat", "office"]) {
      const config = { type: "webhook", url: `${sink.url}/${name}`, headers: {}, secret: null } as const;
      const { id } = await createChannel(w.owner, { name, config });
      await updateChannel(w.owner, id, {
        rounds: true,
        ...(name === "office" ? { active_hours: hours } : {}),
      });
      channels.push(id);
    }
    const config = { type: "pagerduty", routing_key: "0123456789abcdef0123456789abcdef" } as const;
    channels.push((await createChannel(w.owner, { name: "pager", config })).id);
    this.targets = [];
    for (const { name, host, severity, parent } of plans) {
      const { id } = await createTarget(w.owner, {
        name,
        check: { type: "tcp", host, port: 443, timeout: 10_000 },
        region_policy: "any",
        alert_confirmations: 1,
        renotify_interval_secs: 0,
        severity,
        alerts: channels.map((channel_id) => ({ channel_id })),
        depends_on: parent === null ? [] : [this.targets[parent]!],
      });
      this.targets.push(id);
    }
    this.answerWith(null);
  }

  /** The next message gets this answer. */
  answerWith(fault: "error" | "cut" | null): void {
    let next = fault;
    sink.answer = (request, reply) => {
      const how = next;
      next = null;
      const [, channel = ""] = request.path.split("/");
      if (how === "error") return void reply.writeHead(500).end();
      if (channel === "pager") {
        const path = request.path.slice("/pager".length);
        if (how === null) return this.pager.answer({ ...request, path }, reply);
        const lost = { writeHead: () => ({ end: () => reply.destroy() }) };
        return this.pager.answer({ ...request, path }, lost as unknown as typeof reply);
      }
      this.received.push(readMessage(channel, this.w.clock.now(), request.body));
      if (how === "cut") return void reply.destroy();
      reply.writeHead(200).end();
    };
  }

  async play(one: Act): Promise<void> {
    const { w, scene } = this;
    const { replicas } = scene;
    if (one.do === "report")
      for (const verdict of one.verdicts) {
        await replicas.advance(10 * second);
        await scene.report(this.targets[one.at]!, verdict === "P");
        await replicas.settle();
      }
    else if (one.do === "snooze") {
      const until = new Date(w.clock.now() + one.minutes * minute).toISOString();
      await createSnooze(w.owner, { scope: { target_ids: [this.targets[one.at]!] }, until });
    } else if (one.do === "wake") await this.wake();
    else if (one.do === "acknowledge") {
      for (const { id, acknowledged_at } of await this.open())
        if (acknowledged_at === null && (await this.targetOf(id)) === this.targets[one.at])
          await acknowledgeIncident(w.owner, id);
    } else if (one.do === "wait") await replicas.advance(one.secs * second);
    else if (one.do === "kill") {
      this.faults++;
      this.kills++;
      replicas.kill(one.statement, one.after);
    } else {
      this.faults++;
      this.answerWith(one.with);
    }
    await replicas.settle();
  }

  private async wake(): Promise<void> {
    const { items } = await listSnoozes(this.w.owner, { limit: 100, offset: 0 });
    for (const { id } of items) await endSnooze(this.w.owner, id);
  }

  private open = async () => (await listIncidents(this.w.owner, { state: "open", limit: 50, offset: 0 })).items;
  private targetOf = async (id: string) =>
    (await this.w.sql<{ target_id: string }[]>`select target_id from incidents where id = ${id}`)[0]!.target_id;

  /** What is wrong at the end; null where all is well. */
  async fault(): Promise<string | null> {
    const { w, scene, received } = this;
    this.answerWith(null);
    await this.wake();
    // Long enough for each hold that ends by itself, and into the next hours of the office.
    for (let turn = 0; turn < 8; turn++) await scene.replicas.advance(15 * minute);
    const begin = Math.ceil((w.clock.now() - noon) / (24 * 60 * minute)) * 24 * 60 * minute + noon;
    await scene.replicas.advance(begin - w.clock.now());
    for (let turn = 0; turn < 30; turn++) await scene.replicas.advance(20 * second);
    const [left] = await w.sql<{ count: number }[]>`
      select count(*)::int as count from deliveries where state = 'pending'`;
    if (left!.count > 0) return `${left!.count} deliveries never leave`;
    return (
      this.repeated(received) ??
      this.fromReceivers() ??
      (await this.fromIncidents()) ??
      (await this.fromPace()) ??
      (await this.fromPager())
    );
  }

  private repeated(received: readonly Received[]): string | null {
    const repeats = received.length - new Set(received.map(({ id }) => id)).size;
    return repeats <= this.faults ? null : `${repeats} messages were repeated, with ${this.faults} faults`;
  }

  private fromReceivers(): string | null {
    for (const channel of ["chat", "office"]) {
      const open = new Set<string>();
      const ids = new Set<string>();
      for (const { id, fresh, recovered } of this.received.filter((one) => one.channel === channel)) {
        const isRepeat = ids.has(id);
        ids.add(id);
        for (const name of recovered)
          if (!open.delete(name) && !isRepeat) return `the recovery of ${name} came without its opening at ${channel}`;
        for (const name of fresh) open.add(name);
      }
    }
    return null;
  }

  private async fromIncidents(): Promise<string | null> {
    const { w } = this;
    const told = await w.sql<{ name: string; channel: string; messages: number; notices: number }[]>`
      select t.name, d.channel_name as channel, count(distinct coalesce(d.message_id, d.id))::int as messages,
        count(*)::int as notices
      from deliveries d join incidents i on i.id = d.incident_id join targets t on t.id = i.target_id
      where d.state = 'delivered' and d.reason <> 'resolved' and d.channel_name <> 'pager' group by 1, 2`;
    for (const { name, channel, notices } of told) {
      const ids = this.received
        .filter((one) => one.channel === channel && one.fresh.includes(name))
        .map(({ id }) => id);
      if (new Set(ids).size > notices) return `${name} is new in ${new Set(ids).size} messages at ${channel}`;
    }
    for (const incident of await this.open()) {
      const { channels, held } = await explainIncident(w.owner, incident.id);
      for (const { channel_name: name, state, reason } of channels) {
        if (state === "told") {
          if (
            name !== "pager" &&
            !this.received.some((one) => one.channel === name && one.fresh.includes(incident.monitor_name))
          )
            return `${incident.monitor_name} is open, and ${name} never received it`;
          continue;
        }
        const isHeld =
          state === "held" && held.some(({ by }) => by === "dependency" || by === "recheck" || by === "flapping");
        if (!isHeld) return `${incident.monitor_name} is open, and ${name} was not told: ${state} ${reason}`;
      }
      if (channels.length !== 3) return `${incident.monitor_name} explains ${channels.length} channels`;
    }
    const [flap] = await w.sql<{ name: string; reason: string }[]>`
      select t.name, d.reason from deliveries d join incidents i on i.id = d.incident_id
      join targets t on t.id = i.target_id
      where d.channel_name in ('chat', 'office') and d.notice ->> 'flap' = 'held' limit 1`;
    return flap === undefined ? null : `a change of ${flap.name} that flaps was told: ${flap.reason}`;
  }

  private async fromPace(): Promise<string | null> {
    const { sql } = this.w;
    for (const channel of ["chat", "office"]) {
      const found = await paceFault(sql, channel, { secs, kills: this.kills });
      if (found !== null) return found;
    }
    const begun = await sql<{ at: Date }[]>`
      select b.at from begun b join channels c on c.id = b.channel_id where c.name = 'office'`;
    const late = begun.find(({ at: time }) => {
      const waits = [0, 6 * minute].map((ms) => isWithin(hours, time.getTime() - ms));
      return !waits.includes(true);
    });
    return late === undefined ? null : `a message began at ${late.at.toISOString()}, outside the hours`;
  }

  private async fromPager(): Promise<string | null> {
    const { sql } = this.w;
    const alerts = await sql<{ key: string; open: number; told: boolean; paging: number }[]>`
      select a.key, bool_or(d.state = 'delivered') as told,
        count(*) filter (where i.ended_at is null or s.flapping ->> 'incident_id' = i.id::text)::int as open,
        count(*) filter (where d.reason in ('opened', 'reopened'))::int as paging
      from channel_alerts a join channels c on c.id = a.channel_id and c.name = 'pager'
      join channel_alert_incidents m on m.channel_id = a.channel_id and m.key = a.key
      join incidents i on i.id = m.incident_id join target_states s on s.target_id = i.target_id
      left join deliveries d on d.incident_id = i.id and d.channel_id = a.channel_id
      group by a.key`;
    for (const { key, open, told, paging } of alerts) {
      const isOpen = this.pager.open().some((alert) => alert.key === key);
      if (isOpen && open === 0) return `an alert is open at the pager, and its incidents are over`;
      if (!isOpen && open > 0 && told) return `the pager has no alert for an open incident`;
      const pages = this.pager.events().filter((event) => event.key === key && event.type === "trigger").length;
      if (pages > paging) return `an alert paged ${pages} times for ${paging} openings`;
      const updates = this.pager.events().filter((event) => event.key === key && event.type === "update");
      for (const [n, { at: time }] of updates.entries())
        if (n > 0 && time - updates[n - 1]!.at < 30_000 && this.faults === 0) return `texts changed within 30 s`;
    }
    const strange = this.pager.open().find(({ key }) => !alerts.some((alert) => alert.key === key));
    return strange === undefined ? null : "the pager has an alert of nothing";
  }
}

t.test("random outages, holds, hours, flaps and kills, from results to receivers", async (t) => {
  const scene = await openScene();
  const property = fc.asyncProperty(fc.array(act, { minLength: 5, maxLength: 20 }), async (acts) => {
    const history = new History(scene);
    await history.begin();
    for (const one of acts) await history.play(one);
    const found = await history.fault();
    if (found !== null) throw new Error(found);
  });
  await fc.assert(property, histories(2));
  t.pass("all histories");
});
