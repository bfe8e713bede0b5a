import { validate } from "@statusmesh/shared/schema/validate";
import { MaintenanceCreate, type MaintenancePatch } from "../../../alerting/maintenance/schema.ts";
import { type StoredWindow, windowRules } from "../../../alerting/maintenance/service.ts";
import { iso } from "../../../platform/http/wire.ts";
import { changesBetween, fieldsOf, only, sorted } from "../plan/compare.ts";
import type { Declared } from "../document/document.ts";
import { tagOf } from "../document/facts.ts";
import { type Judged, judge, type Judging, listIn, refuse } from "./kind.ts";

type Row = Pick<
  StoredWindow,
  "title" | "description" | "starts_at" | "ends_at" | "recurrence_rule" | "recurrence_time_zone" | "target_ids"
>;

/** Compares a declared maintenance window with the stored one, null for a new one. Null where it has faults. */
export function judgeWindow(
  declared: Declared,
  stored: StoredWindow | null,
  judging: Judging,
): Judged<MaintenanceCreate, MaintenancePatch> | null {
  const { ctx, faults } = judging;
  const { fields, pointer } = declared;
  const { monitors: _, tags: _tags, ...body } = fields;
  const ids = readMonitors(declared, judging);
  // The order of monitors means nothing, and a running window keeps them.
  const same = stored !== null && sorted(ids).join() === sorted(stored.target_ids).join();
  const read = faults.check(() =>
    validate(MaintenanceCreate, { ...body, component_ids: same ? stored.target_ids : ids }, pointer),
  );
  if (read === undefined) return null;
  const nothing = { changes: [], create: read, edit: {} };
  if (stored?.state === "past") return { ...nothing, warning: `${declared.key} has ended: the window is not changed.` };
  const row = judge(judging, pointer, () => windowRules(ctx, read, stored));
  if (row === undefined) return null;
  if (row.over_at !== null && row.over_at.getTime() <= ctx.clock.now())
    return {
      ...nothing,
      warning:
        stored === null
          ? `${declared.key} is over: it is not created.`
          : `${declared.key} is in the past: it is not changed.`,
    };
  const fresh = shownRow(row, judging);
  if (stored === null) return { changes: changesBetween({}, fresh), create: read, edit: null };
  const changes = changesBetween(shownRow(stored, judging), fresh);
  const changed = fieldsOf(changes);
  const whole = { ...read, description: read.description ?? null, recurrence: read.recurrence ?? null };
  const edit = only(whole, changed);
  return { changes, create: read, edit: changed.has("monitors") ? { ...edit, component_ids: ids } : edit };
}

const shownRow = (row: Row, { references }: Judging) => ({
  title: row.title,
  description: row.description,
  starts_at: iso(row.starts_at),
  ends_at: iso(row.ends_at),
  recurrence: row.recurrence_rule === null ? null : { rule: row.recurrence_rule, time_zone: row.recurrence_time_zone },
  monitors: sorted(row.target_ids.map(references.shown)),
});

/** Ids of the monitors of a window: by key, by id, and those that have one of its tags after the apply. */
function readMonitors({ fields, pointer }: Declared, judging: Judging): string[] {
  const { references, faults } = judging;
  const named = listIn(judging, fields, "monitors", pointer).map((key, at) =>
    references.byKey("monitors", key, `${pointer}/monitors/${at}`, faults),
  );
  const outside = listIn(judging, fields, "component_ids", pointer).map((id, at) =>
    references.byId("monitors", id, `${pointer}/component_ids/${at}`, faults),
  );
  const tagged = listIn(judging, fields, "tags", pointer).flatMap((tag, at) => {
    if (typeof tag === "string") {
      const ids = judging.tagged.get(tagOf(tag)) ?? [];
      judging.facts.countWindow(ids.length);
      return ids;
    }
    refuse(judging, "INVALID_TAG", "A tag is a text.", `${pointer}/tags/${at}`);
    return [];
  });
  return [...new Set([...named, ...outside, ...tagged])].filter((id) => id !== null);
}
