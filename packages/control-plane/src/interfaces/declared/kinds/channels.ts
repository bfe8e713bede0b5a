import { mask } from "@statusmesh/shared/secrets";
import { validate } from "@statusmesh/shared/schema/validate";
import { ChannelCreate, type ChannelConfig, type ChannelPatch } from "../../../alerting/channels/schema.ts";
import { channelKindOf, completedConfig } from "../../../alerting/channels/kinds/service.ts";
import { checkConfig, openedConfig, type StoredChannel } from "../../../alerting/channels/config/service.ts";
import { checkedHours } from "../../../alerting/channels/service.ts";
import { checkedRoute } from "../../../alerting/channels/routes/service.ts";
import { changedSecret, changesBetween, fieldsOf, only } from "../plan/compare.ts";
import type { Declared } from "../document/document.ts";
import { type Judged, judge, type Judging, secretsOf, withKept } from "./kind.ts";

/** Compares a declared channel with the stored one, null for a new one. Null where it has faults. */
export function judgeChannel(
  declared: Declared,
  stored: StoredChannel | null,
  judging: Judging,
): Judged<ChannelCreate, ChannelPatch> | null {
  const { ctx, faults } = judging;
  const { fields, pointer } = declared;
  const read = faults.check(() => validate(ChannelCreate, { ...fields }, pointer));
  if (read === undefined) return null;
  const before = stored === null ? null : openedConfig(ctx, stored);
  const config = judge(judging, `${pointer}/config`, () => {
    const whole = completedConfig(read.config);
    return before?.type === whole.type ? (withKept(channelKindOf(whole), before, whole) as ChannelConfig) : whole;
  });
  if (config === undefined) return null;
  const hours = judge(judging, pointer, () => checkedHours(read.active_hours ?? null));
  if (hours === undefined) return null;
  const route = judge(judging, pointer, () => checkedRoute(read.route ?? null));
  if (route === undefined) return null;
  const input: ChannelCreate = { ...read, config, active_hours: hours, route };
  const secrets = before?.type === config.type ? secretsOf(channelKindOf(config), before) : new Map<string, string>();
  const fresh = {
    name: input.name,
    config: channelKindOf(config).mapSecrets(config, (secret, at) =>
      secrets.get(at) === secret ? mask : changedSecret,
    ),
    // A manual pause stays.
    ...(stored !== null && !("enabled" in fields) ? {} : { enabled: input.enabled ?? true }),
    is_default: input.is_default ?? false,
    active_hours: hours,
    route,
    min_severity: input.min_severity ?? "minor",
    rounds: input.rounds ?? null,
  };
  if (stored === null) {
    judge(judging, pointer, () => checkConfig(ctx, config));
    const written = only(fresh, new Set(Object.keys(fields)));
    return { changes: changesBetween({}, written), create: input, edit: null };
  }
  const old = {
    name: stored.name,
    config: channelKindOf(before!).mapSecrets(before!, () => mask),
    ...("enabled" in fresh ? { enabled: stored.enabled } : {}),
    is_default: stored.is_default,
    active_hours: stored.active_hours,
    route: stored.route,
    min_severity: stored.min_severity,
    rounds: stored.rounds,
  };
  const changes = changesBetween(old, fresh);
  const changed = fieldsOf(changes);
  if (changed.has("config")) judge(judging, pointer, () => checkConfig(ctx, config));
  return { changes, create: input, edit: only(input, changed) };
}
