import { type Command, InvalidArgumentError } from "commander";
import { connectionOf, connects, type ConnectionOptions } from "../shell/connection.ts";
import { columns, Failure, print, printJson } from "../shell/output.ts";
import { jsonOption } from "../shell/options.ts";
import { kindArgument, kinds } from "./kinds.ts";

interface Options extends ConnectionOptions {
  json?: boolean;
  tag?: string;
  state?: string;
  limit?: number;
}

export function define(command: Command): void {
  connects(command)
    .description("List monitors, channels, status pages, maintenance windows or incidents.")
    .addArgument(kindArgument("[kind]").default("monitors"))
    .option("--tag <tag>", "only monitors with this tag")
    .option("--state <state>", "only monitors, windows or incidents in this state: down, active, open, ...")
    .option("--limit <rows>", "maximum number; default: all", (text) => {
      if (!/^[1-9]\d{0,6}$/.test(text)) throw new InvalidArgumentError("It must be a whole number from 1.");
      return Number(text);
    })
    .addOption(jsonOption())
    .action(async (kind: string, options: Options) => {
      const { path, columns: shown } = kinds[kind]!;
      const query = new URLSearchParams();
      if (options.tag !== undefined) {
        if (kind !== "monitors") throw new Failure(`--tag is for monitors; ${kind} have no tags.`);
        query.set("tag", options.tag);
      }
      if (options.state !== undefined) {
        if (!["monitors", "maintenance", "incidents"].includes(kind)) throw new Failure(`${kind} have no --state.`);
        query.set("state", options.state);
      }
      const api = await connectionOf(options);
      const items = await api.all(`${path}${query.size > 0 ? `?${query.toString()}` : ""}`, options.limit);
      if (options.json === true) return printJson(items);
      const names = Object.keys(shown);
      print(
        columns(
          names,
          items.map((item) => names.map((name) => text(shown[name]!(item)))),
        ),
      );
    });
}

const text = (value: unknown): string =>
  value === null || value === undefined ? "" : Array.isArray(value) ? value.join(", ") : String(value);
