import { Argument, type Command } from "commander";
import { connectionOf, connects, type ConnectionOptions } from "../shell/connection.ts";
import { tell } from "../shell/output.ts";

export function adopt(command: Command): void {
  command.description("Let a project declare a stored object. Nothing of it changes until the next apply.");
  defineManaging(command, { route: "adopt", done: "declared by" });
}

export function detach(command: Command): void {
  command.description("Stop declaring an object: it stays as it is, and prune ignores it.");
  defineManaging(command, { route: "detach", done: "no longer declared by" });
}

function defineManaging(command: Command, { route, done }: { route: "adopt" | "detach"; done: string }): void {
  connects(command)
    .addArgument(
      new Argument("<kind>", "kind of the object").choices(["monitor", "channel", "status_page", "maintenance"]),
    )
    .argument("<key>", "its key in the files")
    .argument("<id>", "id of the stored object")
    .requiredOption("--project <project>", "project of the files")
    .action(async (kind: string, key: string, id: string, options: ConnectionOptions & { project: string }) => {
      const { project } = options;
      await (await connectionOf(options)).post(`/api/v1/config/${route}`, { project, kind, key, id });
      tell(`${kind} ${key} is ${done} ${project}.`);
    });
}
