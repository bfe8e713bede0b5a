import type { Escalation } from "../../../access/orgs/schema.ts";
import { type Db, rowOf } from "../../../platform/db/client/sql.ts";
import type { Severity } from "../schema.ts";
import type { ActiveHours } from "../../channels/schema.ts";
import { isRouted, routedTags } from "../../channels/routes/service.ts";
import type { PassedOver } from "../escalation/ladder-queries.ts";

/** A channel that an incident concerns: one of its monitor, of its ladder, or one that has a notice of it. */
export interface ConcernedChannel {
  id: string;
  name: string;
  kind: string;
  enabled: boolean;
  disabled_reason: string | null;
  active_hours: ActiveHours | null;
  channel_gate: Severity;
  binding_gate: Severity | null;
  /** It is a channel of the monitor, listed or by its tags. */
  bound: boolean;
  /** Tags by which it is notified; none for one that the monitor lists. */
  tags: string[];
}

/** What decides about notices that are not written yet. */
export interface NoticePlan {
  acknowledged: boolean;
  /** An opening waits until nothing holds it. */
  is_held: boolean;
  /** A notice has left, so that the ladder has begun; null: none has, or the incident was opened without notices. */
  escalation_from: Date | null;
  escalation_passed: number;
  escalation_gated: PassedOver[];
  reminder_due_at: Date | null;
  ladder: Escalation | null;
  channels: ConcernedChannel[];
}

/** {@link NoticePlan} of an incident that is known to be the organisation's. */
export async function selectNoticePlan(sql: Db, orgId: string, incidentId: string): Promise<NoticePlan> {
  return await rowOf(sql<NoticePlan[]>`
    select i.acknowledged_at is not null as acknowledged, i.held_reason is not null as is_held, i.escalation_from,
      i.escalation_passed, i.escalation_gated, i.reminder_due_at, l.ladder, coalesce((
        select jsonb_agg(jsonb_build_object('id', c.id, 'name', c.name, 'kind', c.kind, 'enabled', c.enabled,
          'disabled_reason', c.disabled_reason, 'active_hours', c.active_hours, 'channel_gate', c.min_severity,
          'binding_gate', a.min_severity, 'bound', a.channel_id is not null or r.routed,
          'tags', case when r.routed then to_jsonb(${routedTags(sql)}) else '[]' end)
          order by a.position, c.name, c.id)
        from channels c
        left join target_alerts a on a.target_id = i.target_id and a.channel_id = c.id
        cross join lateral (select coalesce(${isRouted(sql)}, false) as routed) r
        where c.org_id = i.org_id and (a.channel_id is not null or r.routed
          or c.id in (select d.channel_id from deliveries d where d.incident_id = i.id)
          or c.id::text in (select jsonb_array_elements_text(level -> 'channel_ids')
                            from jsonb_array_elements(l.ladder) level))), '[]') as channels
    from incidents i
    join targets t on t.id = i.target_id
    join orgs o on o.id = i.org_id
    cross join lateral (select coalesce(t.escalation, o.escalation) as ladder) l
    where i.org_id = ${orgId} and i.id = ${incidentId}`);
}
