import { Argument, type Command } from "commander";
import { connectionOf, connects, type ConnectionOptions } from "../shell/connection.ts";
import { tell } from "../shell/print.ts";

/** The commands `adopt` and `detach`. */
export function defineManaging(command: Command, { route, done }: { route: "adopt" | "detach"; done: string }): void {
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
