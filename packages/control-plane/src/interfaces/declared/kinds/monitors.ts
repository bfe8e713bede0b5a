import { type CheckSpec, isGroup, isProbed, kindOf } from "@statusmesh/shared/checks";
import { checkAll } from "@statusmesh/shared/schema/faults";
import { isObject } from "@statusmesh/shared/json";
import { mask } from "@statusmesh/shared/secrets";
import { validate } from "@statusmesh/shared/schema/validate";
import { addressesRule, addressHash, type StoredAddress } from "../../../monitoring/heartbeats/service.ts";
import { type Alert, TargetCreate } from "../../../monitoring/targets/schema.ts";
import {
  completedCheck,
  createRules,
  edited,
  savedWarnings,
  type TargetEdit,
} from "../../../monitoring/targets/write/service.ts";
import { openedCheck, type StoredTarget } from "../../../monitoring/targets/stored/service.ts";
import { changedSecret, changesBetween, fieldsOf, only, sorted } from "../plan/compare.ts";
import type { Declared } from "../document/document.ts";
import { type Judged, judge, type Judging, listIn, refuse, secretsOf, withKept } from "./kind.ts";

/** A stored monitor with the addresses of its pings. */
export interface StoredMonitor extends StoredTarget {
  readonly addresses: readonly StoredAddress[];
}

type Fields = Record<string, unknown>;

/** Compares a declared monitor with the stored one, null for a new one. Null where it has faults. */
export function judgeMonitor(
  declared: Declared,
  stored: StoredMonitor | null,
  judging: Judging,
): Judged<TargetCreate, TargetEdit> | null {
  const { ctx, pointer } = { ctx: judging.ctx, ...declared };
  const read = readInput(declared, judging);
  if (read === null) return null;
  if (stored !== null && stored.spec.type !== read.check.type) {
    const message = `The kind of a check cannot change from ${stored.spec.type}. Give the monitor another key instead.`;
    refuse(judging, "CHECK_KIND_IMMUTABLE", message, `${pointer}/check/type`);
    return null;
  }
  const before = stored === null ? null : openedCheck(ctx, stored);
  const check = judge(judging, `${pointer}/check`, () => {
    const whole = completedCheck(read.check);
    return before === null ? whole : (withKept(kindOf(whole), before, whole) as CheckSpec);
  });
  if (check === undefined) return null;
  const input: TargetCreate = { ...read, check };
  const fresh = shownInput(declared, input, { before, stored, judging });
  if (stored === null) {
    const { plan, channels, defaultChannels: defaults, certificates, regions } = judging;
    judge(judging, pointer, () => createRules(ctx, input, { plan, channels, defaults, certificates, regions }));
    const written = only(fresh, new Set(Object.keys(declared.fields)));
    return { changes: changesBetween({}, written), create: input, edit: null, notes: savedWarnings(check) };
  }
  const changes = changesBetween(shownStored(stored, before!, "enabled" in fresh, judging), fresh);
  if (changes.length === 0) return { changes, create: input, edit: { id: stored.id, patch: {} } };
  const edit = editOf(stored.id, input, fieldsOf(changes), { stored, judging });
  const { plan, channels, certificates } = judging;
  const keepable = new Set(devicesOf(stored, judging).map(({ channel_id }) => channel_id));
  judge(judging, pointer, () =>
    checkAll(
      () => edited(ctx, stored, edit, { plan, channels, certificates, keepable, regions: new Set(judging.regions) }),
      () => addressesRule(input.heartbeat_addresses ?? [], stored.addresses.length > 0),
    ),
  );
  return { changes, create: input, edit, notes: savedWarnings(check) };
}

/** The body of the request that makes the monitor, with ids for keys. */
function readInput({ fields, pointer }: Declared, judging: Judging): TargetCreate | null {
  // Not spread: V8 makes hidden classes of its own for each such object to which fields are added, 2.6 KB.
  const body: Fields = Object.assign({}, fields);
  if ("depends_on" in body)
    body["depends_on"] = listIn(judging, body, "depends_on", pointer).flatMap(
      (parent, at) => monitorOf(parent, `${pointer}/depends_on/${at}`, judging) ?? [],
    );
  const { check } = body as { check?: Fields };
  if (check?.["type"] === "group" && Array.isArray(check["members"]))
    body["check"] = {
      ...check,
      members: listIn(judging, check, "members", `${pointer}/check`).flatMap(
        (member, at) => memberOf(member, `${pointer}/check/members/${at}`, judging) ?? [],
      ),
    };
  if ("alerts" in body)
    body["alerts"] = listIn(judging, body, "alerts", pointer).map((alert, at) => {
      const id = channelOf(alert, `${pointer}/alerts/${at}`, judging) ?? unknownChannel;
      const { channel: _key, channel_id: _id, ...more } = (isObject(alert) ? alert : {}) as Fields;
      return { ...more, channel_id: id };
    });
  if ("escalation" in body)
    body["escalation"] = listIn(judging, body, "escalation", pointer).map((level, at) =>
      levelOf(level, `${pointer}/escalation/${at}`, judging),
    );
  const read = judging.faults.check(() => validate(TargetCreate, body, pointer));
  if (read === undefined) return null;
  if (read.alerts !== undefined) read.alerts = read.alerts.filter(({ channel_id: id }) => id !== unknownChannel);
  return read;
}

/** Stands for a channel whose fault is known, so that faults of the next ones have their place in the list. */
const unknownChannel = "00000000-0000-4000-8000-000000000000";

function channelOf(alert: unknown, pointer: string, judging: Judging): string | null {
  const { references, faults } = judging;
  if (typeof alert !== "object" || alert === null) return references.byKey("channels", alert, pointer, faults);
  const { channel, channel_id: id } = alert as Fields;
  return id === undefined
    ? references.byKey("channels", channel, `${pointer}/channel`, faults)
    : references.byId("channels", id, `${pointer}/channel_id`, faults);
}

/** A monitor by its key, or as {target_id} one that the document does not declare. */
function monitorOf(parent: unknown, pointer: string, { references, faults }: Judging): string | null {
  if (typeof parent !== "object" || parent === null) return references.byKey("monitors", parent, pointer, faults);
  return references.byId("monitors", (parent as Fields)["target_id"], `${pointer}/target_id`, faults);
}

/** A member of a group, by its key or its id in place of which an id is stored, or a tag. */
function memberOf(member: unknown, pointer: string, { references, faults }: Judging): unknown {
  if (typeof member !== "object" || member === null) return member;
  const { monitor, target_id: id } = member as Fields;
  const found =
    "monitor" in member
      ? references.byKey("monitors", monitor, `${pointer}/monitor`, faults)
      : "target_id" in member
        ? references.byId("monitors", id, `${pointer}/target_id`, faults)
        : undefined;
  return found === undefined ? member : found === null ? null : { target_id: found };
}

/** The check as it is compared and shown: members of a group by their keys. */
const membersShown = (check: CheckSpec, { references }: Judging): unknown =>
  isGroup(check)
    ? {
        ...check,
        members: check.members.map((one) => ("tag" in one ? one : { monitor: references.shown(one.target_id) })),
      }
    : check;

/** A level of a ladder, whose channels are named like those of alerts. */
function levelOf(level: unknown, pointer: string, judging: Judging): unknown {
  if (typeof level !== "object" || level === null || !("channels" in level)) return level;
  const { channels, ...more } = level as Fields;
  return {
    ...more,
    channel_ids: listIn(judging, { channels }, "channels", pointer).flatMap(
      (channel, at) => channelOf(channel, `${pointer}/channels/${at}`, judging) ?? [],
    ),
  };
}

/** A binding as it is compared and shown. */
function alertShown(
  { channel_id: id, after_failures: after, notify_recovery: recovery, min_severity: gate }: Alert,
  judging: Judging,
): string {
  const settings = [
    ...(after == null ? [] : [`after ${after} failures`]),
    ...(recovery == null ? [] : [recovery ? "with recoveries" : "without recoveries"]),
    ...(gate == null ? [] : [`from ${gate}`]),
  ];
  const name = judging.references.shown(id);
  return settings.length === 0 ? name : `${name} (${settings.join(", ")})`;
}

/** A ladder in the same form; null is that of the organisation. */
const ladderShown = (ladder: TargetCreate["escalation"], { references }: Judging) =>
  ladder?.map(({ after_minutes, channel_ids, min_severity }) => ({
    after_minutes,
    channels: sorted(channel_ids.map(references.shown)),
    ...(min_severity === undefined ? {} : { min_severity }),
  })) ?? null;

interface Compared {
  readonly before: CheckSpec | null;
  readonly stored: StoredMonitor | null;
  readonly judging: Judging;
}

/** The declared monitor as it is compared and shown: whole, without secrets, sets in one order. */
function shownInput({ fields }: Declared, input: TargetCreate, { before, stored, judging }: Compared): Fields {
  const kind = kindOf(input.check);
  const secrets = before === null ? new Map<string, string>() : secretsOf(kind, before);
  const probed = isProbed(input.check);
  const alerts = input.alerts ?? judging.defaultChannels.map((channel_id) => ({ channel_id }));
  return {
    name: input.name,
    check: membersShown(
      kind.mapSecrets(input.check, (secret, pointer) =>
        secrets.get(pointer) === secret ? mask : changedSecret,
      ) as CheckSpec,
      judging,
    ),
    // A manual pause stays.
    ...(stored !== null && !("enabled" in fields) ? {} : { enabled: input.enabled ?? true }),
    tags: sorted(input.tags ?? []),
    alerts: sorted(alerts.map((alert) => alertShown(alert, judging))),
    escalation: ladderShown(input.escalation, judging),
    depends_on: sorted((input.depends_on ?? []).map(judging.references.shown)),
    notify_recovery: input.notify_recovery ?? true,
    renotify_interval_secs: input.renotify_interval_secs ?? 3600,
    severity: input.severity ?? "major",
    flap_detection: input.flap_detection ?? true,
    ...(probed
      ? {
          interval: input.interval ?? kind.defaultIntervalSecs,
          alert_confirmations: input.alert_confirmations ?? 2,
          region_policy: input.region_policy ?? "majority",
          regions: sorted(regionsOf(input, stored, judging)),
        }
      : { heartbeat_addresses: addressesShown(input.heartbeat_addresses ?? [], stored?.addresses ?? []) }),
  };
}

/** Bindings of devices: people make them, and files neither declare nor end them. */
const devicesOf = ({ alerts }: StoredMonitor, { channels }: Judging): StoredMonitor["alerts"] =>
  alerts.filter(({ channel_id: id }) => !channels.has(id));

/** Without a list every enabled region probes the monitor, and a disabled one may stay. */
function regionsOf(input: TargetCreate, stored: StoredMonitor | null, { regions }: Judging): readonly string[] {
  if (input.regions !== undefined) return input.regions;
  const disabled = (stored?.regions ?? []).filter((region) => !regions.includes(region));
  return [...regions, ...disabled];
}

/** Addresses as they are compared; *** is a stored one of its kind, as in an edit. */
function addressesShown(
  addresses: NonNullable<TargetCreate["heartbeat_addresses"]>,
  stored: readonly StoredAddress[],
): string[] {
  const left = [...stored];
  return sorted(
    addresses.map(({ kind, value }) => {
      const hash = addressHash(kind, value);
      const at = left.findIndex((address) => (value === mask ? address.kind === kind : address.hash === hash));
      return at < 0 ? `${kind} ${changedSecret}` : shownAddress(left.splice(at, 1)[0]!);
    }),
  );
}

const shownAddress = ({ kind, hint, hash }: StoredAddress): string => `${kind} …${hint} ${hash.slice(0, 8)}`;

/** A stored monitor in the same form; `isPausable`: whether the file says that it is enabled or paused. */
function shownStored(stored: StoredMonitor, check: CheckSpec, isPausable: boolean, judging: Judging): Fields {
  return {
    name: stored.name,
    check: membersShown(kindOf(check).mapSecrets(check, () => mask) as CheckSpec, judging),
    ...(isPausable ? { enabled: stored.enabled } : {}),
    tags: sorted(stored.tags),
    alerts: sorted(
      stored.alerts.filter(({ channel_id: id }) => judging.channels.has(id)).map((alert) => alertShown(alert, judging)),
    ),
    escalation: ladderShown(stored.escalation, judging),
    depends_on: sorted(stored.depends_on.map(judging.references.shown)),
    notify_recovery: stored.notify_recovery,
    renotify_interval_secs: stored.renotify_interval_secs,
    severity: stored.severity,
    flap_detection: stored.flap_detection,
    ...(isProbed(check)
      ? {
          interval: stored.interval_secs,
          alert_confirmations: stored.alert_confirmations,
          region_policy: stored.region_policy,
          regions: sorted(stored.regions),
        }
      : { heartbeat_addresses: sorted(stored.addresses.map(shownAddress)) }),
  };
}

/** The edit that changes these fields and no others. */
function editOf(
  id: string,
  input: TargetCreate,
  changed: Set<string>,
  { stored, judging }: Pick<Compared, "stored" | "judging">,
): TargetEdit {
  const regions = changed.delete("regions") ? { regions: regionsOf(input, stored, judging) } : {};
  const devices = stored === null ? [] : devicesOf(stored, judging);
  const whole = {
    ...input,
    interval: input.interval ?? kindOf(input.check).defaultIntervalSecs,
    alerts: [...(input.alerts ?? judging.defaultChannels.map((channel_id) => ({ channel_id }))), ...devices],
    escalation: input.escalation ?? null,
    heartbeat_addresses: input.heartbeat_addresses ?? [],
  };
  return { id, patch: only(whole, changed), ...regions };
}
