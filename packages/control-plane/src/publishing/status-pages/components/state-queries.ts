import { arrayOf, type Db } from "../../../platform/db/client/sql.ts";
import type { ManualState } from "../schema.ts";

/** States of a component that are kept. */
const keptStates = 1000;

const isOutage = (state: ManualState): boolean => state !== "operational" && state !== "maintenance";

/** Begins the first state of components that have none yet. The page is locked. */
export async function beginStates(
  sql: Db,
  orgId: string,
  first: readonly { id: string; componentId: string }[],
  now: Date,
): Promise<void> {
  await sql`
    insert into component_states (id, org_id, component_id, state, outage_id, started_at)
    select n.id, c.org_id, c.manual_id, c.state, case when c.state not in ('operational', 'maintenance') then n.id end,
      ${now}
    from unnest(${arrayOf(first.map(({ id }) => id))}::uuid[],
      ${arrayOf(first.map(({ componentId }) => componentId))}::uuid[]) as n (id, component_id)
    join status_page_components c on c.org_id = ${orgId} and c.manual_id = n.component_id
    where not exists (select from component_states s where s.component_id = c.manual_id)`;
}

export interface StateChange {
  /** Of the new state. */
  id: string;
  componentId: string;
  state: ManualState;
  now: Date;
  keepSince: Date;
}

/**
 * Ends the state of a component and begins the next one, which goes on with the outage of the state before. States that
 * ended before `keepSince`, and all but the newest 1,000, are deleted. The page is locked.
 */
export async function changeState(
  sql: Db,
  orgId: string,
  { id, componentId, state, now, keepSince }: StateChange,
): Promise<void> {
  const own = sql`org_id = ${orgId} and component_id = ${componentId}`;
  await sql`
    update status_page_components set state = ${state} where org_id = ${orgId} and manual_id = ${componentId}`;
  const [ended] = await sql<{ ended_at: Date; outage_id: string | null }[]>`
    update component_states set ended_at = greatest(${now}, started_at)
    where ${own} and ended_at is null returning ended_at, outage_id`;
  const outage = isOutage(state) ? (ended!.outage_id ?? id) : null;
  await sql`
    insert into component_states (id, org_id, component_id, state, outage_id, started_at)
    values (${id}, ${orgId}, ${componentId}, ${state}, ${outage}, ${ended!.ended_at})`;
  await sql`
    delete from component_states where ${own} and (ended_at < ${keepSince} or started_at < (
      select started_at from component_states where ${own} order by started_at desc offset ${keptStates} limit 1))`;
}
