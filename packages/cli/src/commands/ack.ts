import type { Command } from "commander";
import { tame } from "@statusmesh/shared/shell/terminal";
import { isId } from "@statusmesh/shared/ids";
import type { Api } from "../shell/api.ts";
import { connectionOf, connects, type ConnectionOptions } from "../shell/connection.ts";
import { Failure, print, printJson } from "../shell/output.ts";
import { jsonOption } from "../shell/options.ts";
import { type Selection, selectMonitors, selects } from "../shell/select.ts";

interface Incident {
  readonly id: string;
  readonly target_id: string;
  readonly monitor_name: string;
  readonly acknowledged_at: string | null;
}

interface Options extends ConnectionOptions, Selection {
  json?: boolean;
  all?: boolean;
}

export function define(command: Command): void {
  selects(connects(command))
    .description("Acknowledge open incidents: their reminders stop. Nothing to acknowledge is no error.")
    .argument("[incidents...]", "ids of incidents")
    .option("--all", "every open incident")
    .addOption(jsonOption())
    .action(async (ids: string[], options: Options) => {
      const api = await connectionOf(options);
      const incidents = await selectIncidents(api, ids, options);
      const done: unknown[] = [];
      for (const incident of incidents) {
        done.push(await api.post(`/api/v1/incidents/${incident.id}/acknowledge`));
        if (options.json !== true) print(`acknowledged  ${tame(incident.monitor_name)}  ${incident.id}\n`);
      }
      if (options.json === true) printJson(done);
      else if (done.length === 0) print("No open incident is left to acknowledge.\n");
    });
}

async function selectIncidents(api: Api, ids: readonly string[], options: Options): Promise<Incident[]> {
  const { monitor = [], tag = [], all } = options;
  const wrong = ids.find((id) => !isId(id));
  if (wrong !== undefined)
    throw new Failure(`${wrong} is no id of an incident. Use --monitor for the name of a monitor.`);
  if (ids.length + monitor.length + tag.length === 0 && all !== true)
    throw new Failure("which incidents? Give their ids, --monitor, --tag or --all.");
  const open = (await api.all("/api/v1/incidents?state=open")) as unknown as Incident[];
  const missing = ids.find((id) => !open.some((incident) => incident.id === id.toLowerCase()));
  if (missing !== undefined) throw new Failure(`there is no open incident ${missing}.`);
  const wanted = new Set(ids.map((id) => id.toLowerCase()));
  const of =
    monitor.length + tag.length === 0
      ? new Set<string>()
      : new Set((await selectMonitors(api, monitor, tag)).map(({ id }) => id));
  return open.filter(
    ({ id, target_id: target, acknowledged_at: at }) =>
      wanted.has(id) || (at === null && (all === true || of.has(target))),
  );
}
