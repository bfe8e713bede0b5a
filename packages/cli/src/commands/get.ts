import type { Command } from "commander";
import { connectionOf, connects, type ConnectionOptions } from "../shell/connection.ts";
import { print, printJson, yamlOf } from "../shell/output.ts";
import { jsonOption } from "../shell/options.ts";
import { theOne } from "../shell/select.ts";
import { kindArgument, kinds } from "./kinds.ts";

export function define(command: Command): void {
  connects(command)
    .description("Show one monitor, channel, status page, maintenance window or incident, as YAML or JSON.")
    .addArgument(kindArgument("<kind>"))
    .argument("<name>", "id, key or name; the title of a window, the monitor of an incident")
    .addOption(jsonOption())
    .action(async (kind: string, wanted: string, options: ConnectionOptions & { json?: boolean }) => {
      const api = await connectionOf(options);
      const { path } = kinds[kind]!;
      const all = await api.all(path);
      const named = all.map((item) => ({
        ...(item as { id: string; managed_by?: { project: string; key: string } | null }),
        name: (item["name"] ?? item["title"] ?? item["monitor_name"]) as string,
      }));
      const { id } = theOne(named, wanted, kind.replace(/s$/, ""));
      const one = await api.get(`${path}/${id}`);
      if (options.json === true) return printJson(one);
      print(await yamlOf(one));
    });
}
