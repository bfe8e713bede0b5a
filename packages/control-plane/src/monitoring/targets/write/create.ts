import { type CheckSpec, isGroup, isHeartbeat, isProbed, kindOf } from "@statusmesh/shared/checks";
import { groupRegion } from "@statusmesh/shared/checks/group";
import { heartbeatRegion } from "@statusmesh/shared/checks/heartbeat";
import { AppError } from "@statusmesh/shared/errors";
import { below, checkAll, Faults } from "@statusmesh/shared/schema/faults";
import { newId } from "@statusmesh/shared/ids";
import { type Change, record } from "../../../access/audit/service.ts";
import { existingChannelIds, keepDefaultChannels } from "../../../alerting/channels/service.ts";
import { type ActorCtx, type Ctx, inTransaction, requireScope } from "../../../platform/context.ts";
import { mapInTurns, portionsOf } from "../../../platform/process/turns.ts";
import { ladderRule } from "../../../access/orgs/service.ts";
import { type Plan, planOf, takeQuota } from "../../../access/plans/service.ts";
import type { HeartbeatAddresses } from "../../heartbeats/schema.ts";
import { certificateRule, type KnownCertificates, knownCertificates } from "../../certificates/service.ts";
import { addHeartbeats, addressesRule } from "../../heartbeats/service.ts";
import { probeRegionIds } from "../../regions/service.ts";
import { dependenciesOf, keepDependencies, writeDependencies } from "../dependencies/dependencies.ts";
import { writeMembers } from "../dependencies/group-members.ts";
import { everything } from "../list/filter-queries.ts";
import { countTargets } from "../list/list-queries.ts";
import * as queries from "../queries.ts";
import {
  afterFailuresRule,
  alertRule,
  checkRules,
  completed,
  fixedIntervalSecs,
  intervalRule,
  present,
  regionPolicyRule,
  regionsRule,
  renotifyRule,
  reportedRules,
  shownAddresses,
  tagsRule,
} from "./rules.ts";
import { sealSpec } from "../stored/sealing.ts";
import { withCreatedFindings } from "./unable.ts";
import { type Alert, maxAlerts, type Target, type TargetCreate } from "../schema.ts";

/**
 * Creates a target in the given regions, or in every enabled one; its first check runs at once. REGION_INVALID where no
 * region, or not each given one, is enabled.
 */
export async function createTarget(ctx: Ctx, input: TargetCreate): Promise<Target> {
  requireScope(ctx, "targets:write");
  const [target] = await create(
    ctx,
    [input],
    () => "",
    ([made]) => ({ resourceId: made!.id, after: made! }),
  );
  return (await withCreatedFindings(ctx, [target!]))[0]!;
}

/**
 * Creates many targets, all or none, and returns them in the order given. The fields of errors begin with the place in
 * the list: `/3/check/port`. `ids`: those that the targets get, where the caller has promised them already.
 */
export async function createTargets(
  ctx: Ctx,
  inputs: readonly TargetCreate[],
  ids: readonly string[] = [],
): Promise<Target[]> {
  requireScope(ctx, "targets:write");
  // One row of the audit log for the request: a row for each of ten thousand would cost as much as the targets
  // themselves.
  return await create(
    ctx,
    inputs,
    (at) => `/${at}`,
    (made) => ({
      resourceId: null,
      after: { count: made.length, ids: made.map((target) => target.id), names: made.map((target) => target.name) },
    }),
    ids,
  );
}

/** Creates a heartbeat monitor for a job that reports for the first time, by the address that it uses. */
export async function createReporting(
  ctx: ActorCtx,
  {
    name,
    address,
    period,
    grace,
  }: { name: string; address: HeartbeatAddresses[number]; period: number; grace: number },
): Promise<void> {
  const check = { type: "heartbeat", period, grace, schedule: null, max_runtime: null, methods: "any" } as const;
  await create(
    ctx,
    [{ name, check, heartbeat_addresses: [address] }],
    () => "",
    ([made]) => ({ resourceId: made!.id, after: made! }),
  );
}

/** The same few statements for one target as for hundreds. Throws all faults of the inputs at once. */
async function create(
  ctx: ActorCtx,
  inputs: readonly TargetCreate[],
  base: (at: number) => string,
  changeOf: (made: Target[]) => Change,
  ids: readonly string[] = [],
): Promise<Target[]> {
  const faults = new Faults();
  // Rules that need no database are checked first.
  const drafts = await mapInTurns(inputs, (input, at) =>
    faults.isFull ? undefined : faults.check(() => below(base(at), () => draft(ctx, input, ids[at]))),
  );
  return await inTransaction(ctx, async (tx) => {
    const { sql } = tx;
    const dependent = inputs.some(({ depends_on: parents = [] }) => parents.length > 0);
    const joins = ({ check, tags = [] }: TargetCreate): boolean => isGroup(check) || tags.length > 0;
    const mayJoin = inputs.some(joins);
    if (dependent || mayJoin) await keepDependencies(tx);
    const plan = faults.isEmpty
      ? await takeQuota(tx, "max_targets", async () => ({
          current: await countTargets(sql, ctx.orgId, new Date(ctx.clock.now()), everything),
          adding: inputs.length,
        }))
      : await planOf(tx);
    const channels = await boundChannels(tx, inputs);
    const defaults = inputs.every(({ alerts }) => alerts !== undefined)
      ? []
      : (await keepDefaultChannels(tx.sql, tx.orgId)).slice(0, maxAlerts);
    for (const id of defaults) channels.add(id);
    const certificates = await knownCertificates(
      tx,
      inputs.map(({ check }) => check),
    );
    const regions = await probeRegionIds(tx);
    if (regions.length === 0 && faults.isEmpty && inputs.some(({ check }) => isProbed(check)))
      throw new AppError(
        "REGION_INVALID",
        "No region is enabled, so nothing would be checked. The operator of this instance can enable one " +
          "(PATCH /operator/regions/{id}).",
      );
    const bound = await mapInTurns(inputs, (input, at) =>
      faults.isFull
        ? undefined
        : faults.check(() =>
            below(base(at), () => boundTo(input, { plan, channels, defaults, certificates, regions })),
          ),
    );
    faults.throwAny();
    const rows = await mapInTurns(drafts, (draft, at): queries.TargetRow => {
      const row = draft!;
      const addresses = !isHeartbeat(row.spec) ? null : shownAddresses(inputs[at]!.heartbeat_addresses ?? []);
      return { ...row, spec: sealSpec(ctx, row.id, row.spec), alerts: bound[at]!, heartbeat_addresses: addresses };
    });
    await insert(tx, rows, inputs);
    if (dependent)
      await writeDependencies(
        tx,
        rows.map(({ id, depends_on: parents }, at) => ({ id, parents, base: base(at) })),
      );
    await addHeartbeats(
      tx,
      rows.flatMap(({ id, spec }, at) =>
        !isHeartbeat(spec) ? [] : [{ targetId: id, addresses: inputs[at]!.heartbeat_addresses ?? [] }],
      ),
    );
    if (mayJoin) {
      const written = rows.map(({ id }, at) => ({ id, base: base(at), input: inputs[at]! }));
      await writeMembers(tx, {
        groups: written.filter(({ input }) => isGroup(input.check)),
        monitors: written.filter(({ input }) => joins(input)),
      });
    }
    await queries.announceTargets(sql);
    const made = await mapInTurns(rows, present);
    await record(tx, changeOf(made));
    return made;
  });
}

/** What the rules of new targets compare with. */
export interface CreateContext {
  readonly plan: Plan;
  /** Channels of the organisation among those that the targets name. */
  readonly channels: ReadonlySet<string>;
  /** Channels of a target that names none. */
  readonly defaults: readonly string[];
  readonly certificates: KnownCertificates;
  /** The enabled regions. */
  readonly regions: readonly string[];
}

/** Throws the faults that {@link createTargets} finds in a target, the quota aside. */
export function createRules(ctx: Ctx, input: TargetCreate, known: CreateContext): void {
  checkAll(
    () => draftRules(ctx, input),
    () => boundTo(input, known),
  );
}

/** The bindings of a new target; checks the rules that need the plan, the channels and the regions. */
function boundTo(input: TargetCreate, { plan, channels, defaults, certificates, regions }: CreateContext): Alert[] {
  const { check, region_policy, regions: chosen, escalation } = input;
  const alerts = input.alerts ?? defaults.map((channel_id) => ({ channel_id }));
  let bound: Alert[] = [];
  checkAll(
    () => isProbed(check) && intervalRule(plan, check, intervalOf(input)),
    () => certificateRule(check, certificates),
    () => (bound = alertRule(alerts, channels)),
    () => afterFailuresRule(alerts, confirmationsOf(input)),
    () => escalation && ladderRule(escalation, channels),
    () => chosen && isProbed(check) && regionsRule(chosen, new Set(regions)),
    () => region_policy && isProbed(check) && regionPolicyRule(region_policy, (chosen ?? regions).length),
  );
  return bound;
}

/** Ids and bindings of one statement. */
const statementRows = 5_000;
/** Targets of one statement, characters of their JSON; a larger one is written and sent in one piece all the same. */
const statementLength = 524_288;

/** Those of the channels bound by the inputs that the organisation has. */
async function boundChannels(ctx: ActorCtx, inputs: readonly TargetCreate[]): Promise<Set<string>> {
  const ids = new Set<string>();
  await mapInTurns(inputs, ({ alerts = [], escalation }) => {
    for (const { channel_id } of alerts) ids.add(channel_id);
    for (const { channel_ids } of escalation ?? []) for (const id of channel_ids) ids.add(id);
  });
  const found = new Set<string>();
  for (const some of portionsOf([...ids], statementRows))
    for (const id of await existingChannelIds(ctx, ctx.orgId, some)) found.add(id);
  return found;
}

/** The reserved region of a check that no agent probes. */
const regionOf = (spec: CheckSpec): string => (isGroup(spec) ? groupRegion : heartbeatRegion);

/** Stores the rows and their bindings. */
async function insert(
  { sql }: ActorCtx,
  rows: readonly queries.TargetRow[],
  inputs: readonly TargetCreate[],
): Promise<void> {
  const insertables = await mapInTurns(rows, (row, at) =>
    queries.insertable({ ...row, regions: isProbed(row.spec) ? (inputs[at]!.regions ?? null) : [regionOf(row.spec)] }),
  );
  let texts: string[] = [];
  let length = 0;
  for (const [at, text] of insertables.entries()) {
    texts.push(text);
    length += text.length;
    if (length < statementLength && at < rows.length - 1) continue;
    await queries.insertTargets(sql, texts);
    texts = [];
    length = 0;
  }
  const alerts = await mapInTurns(rows, (row) => queries.bindingsOf(row.id, row.alerts));
  for (const some of portionsOf(alerts.flat(), statementRows)) await queries.insertAlerts(sql, some);
}

const intervalOf = ({ check, interval }: TargetCreate): number =>
  isProbed(check) ? (interval ?? kindOf(check).defaultIntervalSecs) : fixedIntervalSecs(check);

const confirmationsOf = ({ check, alert_confirmations = 2 }: TargetCreate): number =>
  isProbed(check) ? alert_confirmations : 1;

/** Rules of a new target that need no other object. */
function draftRules(ctx: ActorCtx, input: TargetCreate): void {
  checkAll(
    () => checkRules(ctx, input.check, "/check"),
    () => renotifyRule(renotifyOf(input)),
    () => reportedRules(input.check, input),
    () => addressesRule(input.heartbeat_addresses ?? [], false),
  );
}

const renotifyOf = (input: TargetCreate): number => input.renotify_interval_secs ?? 3600;

/** The row of a new target, its secrets still open. */
function draft(ctx: ActorCtx, input: TargetCreate, id = newId()): queries.NewTargetRow {
  draftRules(ctx, input);
  const spec = completed(input.check);
  const now = new Date(ctx.clock.now());
  return {
    id,
    org_id: ctx.orgId,
    name: input.name,
    spec,
    interval_secs: intervalOf(input),
    enabled: input.enabled ?? true,
    tags: tagsRule(input.tags ?? []),
    alert_confirmations: confirmationsOf(input),
    notify_recovery: input.notify_recovery ?? true,
    renotify_interval_secs: renotifyOf(input),
    region_policy: (isGroup(spec) ? undefined : input.region_policy) ?? "majority",
    write_source: ctx.writeSource,
    created_at: now,
    updated_at: now,
    managed: null,
    escalation: input.escalation ?? null,
    severity: input.severity ?? "major",
    flap_detection: input.flap_detection ?? true,
    depends_on: dependenciesOf(input.depends_on ?? []),
  };
}
