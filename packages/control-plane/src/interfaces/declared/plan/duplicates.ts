import type { MaintenanceCreate } from "../../../alerting/maintenance/schema.ts";
import type { StoredWindow } from "../../../alerting/maintenance/service.ts";
import type { TargetCreate } from "../../../monitoring/targets/schema.ts";
import { undeclaredTargets } from "../../../monitoring/targets/stored/service.ts";
import type { Ctx } from "../../../platform/context.ts";
import { iso } from "../../../platform/http/wire.ts";
import { portionsOf } from "../../../platform/process/turns.ts";
import type { JudgedOne, Stored } from "./match.ts";

/** Warnings of one section that are listed. */
const most = 20;
/** Names of one statement: 20,000 hold the event loop while they are encoded. */
const namesAtOnce = 2_000;

/**
 * Warnings about new monitors and maintenance windows that are already there, made by hand: the apply adds a second
 * one. Names of channels and slugs of pages are unique, and refused.
 */
export async function duplicateWarnings(
  ctx: Ctx,
  judged: {
    monitors: readonly JudgedOne<Stored, TargetCreate, unknown>[];
    maintenance: readonly JudgedOne<Stored, MaintenanceCreate, unknown>[];
  },
  windows: readonly StoredWindow[],
): Promise<string[]> {
  const [monitors, planned] = [created(judged.monitors), created(judged.maintenance)];
  const targets: { id: string; kind: string; name: string }[] = [];
  for (const names of portionsOf([...new Set(monitors.map(({ input }) => input.name))], namesAtOnce))
    targets.push(...(await undeclaredTargets(ctx, names)));
  const open = windows.filter(({ managed, state }) => managed === null && state !== "past");
  return [
    ...warningsOf(
      { noun: "monitor", shared: "this name" },
      monitors.map(({ key, input }) => ({ key, text: `${input.check.type} ${input.name}` })),
      targets.map(({ id, kind, name }) => ({ id, text: `${kind} ${name}` })),
    ),
    ...warningsOf(
      { noun: "maintenance window", shared: "this title and start" },
      planned.map(({ key, input }) => ({ key, text: `${iso(new Date(input.starts_at))} ${input.title}` })),
      open.map(({ id, title, starts_at: start }) => ({ id, text: `${iso(start)} ${title}` })),
    ),
  ];
}

const created = <I>(judged: readonly JudgedOne<Stored, I, unknown>[]): { key: string; input: I }[] =>
  judged.flatMap(({ declared, action, judged: one }) =>
    action === "create" && one.warning === undefined ? [{ key: declared.key, input: one.create }] : [],
  );

/** New and stored objects are alike where their texts are the same. */
function warningsOf(
  { noun, shared }: { noun: string; shared: string },
  fresh: readonly { key: string; text: string }[],
  stored: readonly { id: string; text: string }[],
): string[] {
  // The oldest one counts.
  const byText = new Map([...stored].reverse().map(({ id, text }) => [text, id]));
  const found = fresh.flatMap(({ key, text }) => {
    const id = byText.get(text);
    return id === undefined
      ? []
      : [
          `${key}: there is a ${noun} with ${shared} that no file declares, and the apply adds a second one. ` +
            `Write adopt: ${id} to take it over.`,
        ];
  });
  const more = found.length - most;
  return more <= 0 ? found : [...found.slice(0, most), `${more} more of the new ${noun}s are there already.`];
}
