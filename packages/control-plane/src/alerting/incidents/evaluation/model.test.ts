import fc from "fast-check";
import t from "tap";
import { type AgentResult, protocolVersion } from "@statusmesh/shared/protocol/agent-protocol";
import type { AgentCtx, System } from "../../../platform/context.ts";
import { sendReminders } from "../escalation/reminders.ts";
import { openIngest } from "../../../monitoring/pipeline/ingest.ts";
import { updateTarget } from "../../../monitoring/targets/write/service.ts";
import { noon, second } from "../../../testing/clock.ts";
import { openOutages } from "../../../testing/outages.ts";
import { admit, agentResult } from "../../../testing/scene.ts";
import { followMaintenance } from "../engine.ts";
import type { EventKind } from "../timeline/event-schema.ts";
import { ReferenceModel, type Grade } from "../../../testing/reference-model.ts";
import { acknowledgeIncident, resolveIncident, unacknowledgeIncident } from "../lifecycle/service.ts";
import { narrateIncident } from "../timeline/service.ts";

/*
 * Random histories against the reference model: results (shuffled, duplicated, sent to both replicas at once, sent
 * again later), region loss, edits, restarts, maintenance, acknowledgements, reminders. After every step the database
 * has the incidents and the notices of the model, and a timeline that is possible.
 */

const world = await openOutages(t);
const { sql, clock, system, owner } = world;

interface Real {
  target: string;
  /** Two replicas; a restart replaces both. */
  replicas: System[];
  ingests: ReturnType<typeof openIngest>[];
  /** Every batch so far, for duplicates. */
  sent: { agent: AgentCtx; batch: AgentResult[] }[];
}
type Model = ReferenceModel;

const pools = [system, { ...system, sql: world.pool(4) }];

async function post({ ingests, replicas }: Real, at: number, agent: AgentCtx, results: AgentResult[]): Promise<void> {
  await ingests[at]!({ ...agent, ...replicas[at]! }, { protocol: protocolVersion, results, runs: [] });
}

/** A step changes both sides, then compares them. */
function step(title: string, act: (model: Model, real: Real) => Promise<unknown>): fc.AsyncCommand<Model, Real> {
  return {
    check: () => true,
    async run(model, real) {
      await act(model, real);
      await compare(model, real, title);
    },
    toString: () => title,
  };
}

interface Batch {
  region: "eu" | "us";
  grades: readonly Grade[];
  /** Ranks that shuffle the batch. */
  order: readonly number[];
  copies: number;
  /** Sent to both replicas at once. */
  both: boolean;
}

function report({ region, grades, order, copies, both }: Batch): fc.AsyncCommand<Model, Real> {
  const title = `${region} ${grades.join(" ")}${copies > 1 ? " twice" : ""}${both ? " to both" : ""}`;
  return step(title, async (model, real) => {
    const agent = world[region];
    const results = grades.map((grade) => {
      clock.advance(second);
      const status = grade === "passed" ? "up" : grade === "degraded" ? "degraded" : "down";
      return agentResult(real.target, clock.now(), { status });
    });
    for (const [at, grade] of grades.entries()) model.run(region, grade, results[at]!.scheduled_at, clock.now());
    const ranks = new Map(results.map((result, at) => [result, order[at]!]));
    const shuffled = Array.from({ length: copies }, () => results).flat();
    shuffled.sort((a, b) => ranks.get(a)! - ranks.get(b)!);
    await admit(system, region, results);
    const replicas = both ? [0, 1] : [order[0]! % 2];
    await Promise.all(replicas.map((at) => post(real, at, agent, [...shuffled])));
    real.sent.push({ agent, batch: results });
  });
}

const lastId = async (target: string) => (await world.incidents(target)).toSorted(byId).at(-1)?.id;
const byId = (a: { id: string }, b: { id: string }) => (a.id < b.id ? -1 : 1);
const onLast = (work: (id: string) => Promise<unknown>) => async (target: string) => {
  const id = await lastId(target);
  if (id !== undefined) await work(id);
};

const acts: Record<string, (model: Model, real: Real) => Promise<unknown>> = {
  acknowledge: async (model, { target }) => {
    model.acknowledge();
    await onLast((id) => Promise.all([acknowledgeIncident(owner, id), acknowledgeIncident(owner, id)]))(target);
  },
  unacknowledge: async (model, { target }) => {
    model.unacknowledge(clock.now());
    await onLast((id) => unacknowledgeIncident(owner, id))(target);
  },
  resolve: async (model, { target }) => {
    if (model.last?.open !== true) return;
    model.closeByHand(clock.now(), true);
    await onLast((id) => Promise.all([resolveIncident(owner, id), resolveIncident(owner, id)]))(target);
  },
  pause: async (model, { target }) => {
    model.closeByHand(clock.now(), false);
    await updateTarget(owner, target, { enabled: false });
    await updateTarget(owner, target, { enabled: true });
  },
  "pin critical": async (model, { target }) => {
    model.pin("critical", clock.now());
    await onLast((id) => narrateIncident(owner, id, { severity: "critical" }))(target);
  },
  unpin: async (model, { target }) => {
    model.pin(null, clock.now());
    await onLast((id) => narrateIncident(owner, id, { severity: null }))(target);
  },
  "down is critical": async (model, { target }) => {
    model.setDown("critical", clock.now());
    await updateTarget(owner, target, { severity: "critical" });
  },
  "down is major": async (model, { target }) => {
    model.setDown("major", clock.now());
    await updateTarget(owner, target, { severity: "major" });
  },
  remind: async (model, { replicas }) => {
    model.remind(clock.now());
    await Promise.all(replicas.map((replica) => sendReminders(replica)));
  },
  follow: async (model, { replicas }) => {
    model.follow(clock.now());
    await Promise.all(replicas.map((replica) => followMaintenance(replica)));
  },
  restart: async (_model, real) => {
    real.replicas.reverse();
    real.ingests = real.replicas.map(() => openIngest(async () => {}));
  },
  "send again": async (_model, real) => {
    for (const { agent, batch } of real.sent.slice(-5)) await post(real, 0, agent, [...batch].reverse());
  },
  "end maintenance": async (model, { target }) => {
    if (!model.inWindow(clock.now())) return;
    model.window.to = clock.now();
    await sql`
      update maintenance_occurrences o set ends_at = ${new Date(clock.now())} from maintenance_window_targets wt
      where wt.window_id = o.window_id and wt.target_id = ${target} and o.ends_at > ${new Date(clock.now())}`;
  },
};

const maintenance = (secs: number) =>
  step(`maintenance ${secs} s`, async (model, { target }) => {
    if (model.inWindow(clock.now())) return;
    clock.advance(1);
    model.window = { from: clock.now(), to: clock.now() + secs * second };
    await world.maintain(target, 0, secs * second);
    clock.advance(1);
  });
const wait = (secs: number) => step(`wait ${secs} s`, async () => clock.advance(secs * second));
const edit = (confirmations: number, policy: "any" | "all") =>
  step(`edit ${confirmations} ${policy}`, async (model, { target }) => {
    if (model.confirmations === confirmations && model.policy === policy) return;
    model.edit(confirmations, policy, clock.now());
    await updateTarget(owner, target, { alert_confirmations: confirmations, region_policy: policy });
  });

async function compare(model: Model, { target }: Real, step: string): Promise<void> {
  const rows = await sql<
    { id: string; open: boolean; severity: string; reopened: number; acknowledged: boolean; reasons: string[] }[]
  >`
    select i.id, i.ended_at is null as open, i.severity, i.reopened_count as reopened,
      i.acknowledged_at is not null as acknowledged,
      array(select d.reason from deliveries d where d.incident_id = i.id order by d.created_at, d.id) as reasons
    from incidents i where i.target_id = ${target} and not i.retracted order by i.id`;
  const real = rows.map(({ id: _, ...row }) => ({ ...row, reasons: row.reasons.join(" ") }));
  const wanted = model.incidents.map((incident) => ({
    open: incident.open,
    severity: model.shown(incident),
    reopened: incident.reopened,
    acknowledged: incident.acknowledged,
    reasons: incident.notices.map(({ reason }) => reason).join(" "),
  }));
  if (JSON.stringify(real) !== JSON.stringify(wanted))
    throw new Error(`after "${step}" there is ${JSON.stringify(real)}, and by the rules ${JSON.stringify(wanted)}`);
  for (const { id, open } of rows) await holdTimeline(id, open, step);
}

/**
 * Throws where a timeline cannot be: it opens once, closings and reopenings alternate, times rise, the end is the
 * state.
 */
async function holdTimeline(id: string, open: boolean, step: string): Promise<void> {
  const events = await sql<{ kind: EventKind; at: Date }[]>`
    select kind, at from incident_events where incident_id = ${id} order by at, id`;
  let is: boolean | null = null;
  let acknowledged = false;
  let before = 0;
  for (const { kind, at } of events) {
    const fits: Partial<Record<EventKind, boolean>> = {
      opened: is === null,
      resolved: is === true,
      reopened: is === false,
      escalated: is === true,
      acknowledged: is === true && !acknowledged,
      unacknowledged: acknowledged,
    };
    if (fits[kind] === false || at.getTime() <= before)
      throw new Error(`after "${step}": ${kind} in ${events.map((event) => event.kind).join(" ")}`);
    if (kind === "opened" || kind === "reopened") is = true;
    if (kind === "resolved") is = false;
    if (kind === "reopened" || kind === "unacknowledged") acknowledged = false;
    if (kind === "acknowledged") acknowledged = true;
    before = at.getTime();
  }
  if (is !== open)
    throw new Error(`after "${step}" the timeline ends ${is ? "open" : "closed"}, the incident does not`);
}

const grades = fc.array(fc.constantFrom<Grade>("passed", "passed", "failed", "failed", "degraded"), {
  minLength: 1,
  maxLength: 6,
});
const order = fc.array(fc.nat(9), { minLength: 6, maxLength: 6 });
const region = fc.constantFrom("eu" as const, "us" as const);
const copies = fc.constantFrom(1, 2);
const reports = fc.record({ region, grades, order, copies, both: fc.boolean() }).map(report);
const steps = [
  reports,
  reports,
  reports,
  fc.constantFrom(...Object.entries(acts)).map(([title, work]) => step(title, work)),
  fc.constantFrom(1, 61, 131, 301).map(wait),
  fc.constantFrom(10, 100).map(maintenance),
  fc.tuple(fc.integer({ min: 1, max: 3 }), fc.constantFrom("any" as const, "all" as const)).map(([n, p]) => edit(n, p)),
];

t.test(
  "random histories on two replicas give the incidents, notices and timelines of the reference model",
  async (t) => {
    let histories = 0;
    await fc.assert(
      fc.asyncProperty(fc.commands(steps, { maxCommands: 40, size: "max" }), async (commands) => {
        histories++;
        // Far from the history before, whose reminders are over.
        clock.at = noon;
        await sql`update incidents set reminder_due_at = null, held_reason = null, in_maintenance = false`;
        const target = await world.monitor({ renotify_interval_secs: 60 });
        const replicas = [...pools];
        const real = { target, replicas, ingests: replicas.map(() => openIngest(async () => {})), sent: [] };
        await fc.asyncModelRun(() => ({ model: new ReferenceModel(), real }), commands);
      }),
      { numRuns: 40, interruptAfterTimeLimit: 12_000, markInterruptAsFailure: false, endOnFailure: true },
    );
    t.ok(histories > 0, `${histories} histories`);
  },
);
