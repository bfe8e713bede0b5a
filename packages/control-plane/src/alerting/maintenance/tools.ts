import Type from "typebox";
import { tool, type Tool } from "../../platform/http/tool.ts";
import { absent, clipped, ConsoleUrl, consoleUrl, customerText, fitting } from "../../platform/http/tool-texts.ts";
import { Closed, described, Integer, Text, Timestamp } from "../../platform/http/wire.ts";
import { windowStates } from "./schema.ts";
import { plannedWindows } from "./service.ts";
import { recurrenceWords } from "./words.ts";

/** Longest name, characters. */
const shortText = 200;

const time = (description: string) => described(Timestamp, description);

export const maintenanceTools: Tool[] = [
  tool({
    name: "list_maintenance",
    title: "List maintenance windows",
    description: "Maintenance windows, soonest first: planned work, which holds the notifications of its monitors.",
    scope: "targets:read",
    input: Closed({
      state: Type.Optional(
        Type.Enum([...windowStates], { type: "string", description: "Default: active and upcoming ones" }),
      ),
      limit: Type.Integer({ minimum: 1, maximum: 100, default: 20, description: "Most rows" }),
    }),
    output: Closed({
      windows: Type.Array(
        Closed({
          maintenance_id: Type.String(),
          title: customerText("title"),
          state: Type.Enum([...windowStates], { type: "string" }),
          starts_at: time("Of the current, next or last time"),
          ends_at: time("Of the same"),
          repeats: absent(Text("How it recurs")),
          monitors: Type.Array(customerText("name of one of the first 10 monitors")),
          monitors_total: Type.Integer(),
        }),
      ),
      total: Integer("Matching windows"),
      left_out: Integer("Matching windows that are not in the list"),
      console_url: ConsoleUrl,
    }),
    async handle({ ctx, args }) {
      const { items, total } = await plannedWindows(ctx, args);
      const { rows } = fitting(
        items.map(({ window, monitors }) => ({
          maintenance_id: window.id,
          title: clipped(window.title, shortText),
          state: window.state,
          starts_at: (window.occurrence ?? window).starts_at,
          ends_at: (window.occurrence ?? window).ends_at,
          repeats: window.recurrence === null ? null : recurrenceWords(window.recurrence),
          monitors: monitors.map((name) => clipped(name, shortText)),
          monitors_total: window.component_ids.length,
        })),
      );
      return {
        windows: rows,
        total,
        left_out: total - rows.length,
        console_url: consoleUrl(ctx, "/maintenance"),
      };
    },
  }),
];
