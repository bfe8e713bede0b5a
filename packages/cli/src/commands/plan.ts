import type { Command } from "commander";
import { connectionOf } from "../shell/connection.ts";
import { codeOf, plans, type PlanOptions, printPlan, requestPlan } from "../shell/planning.ts";
import { readProject } from "../shell/project.ts";

export function define(command: Command): void {
  plans(command)
    .description("Show what apply would do. Exit code 2 when there are differences, 0 when there are none.")
    .action(async (paths: string[], options: PlanOptions) => {
      const project = readProject(paths, options);
      const plan = await requestPlan(connectionOf(options), project, options);
      printPlan(plan, options);
      process.exitCode = codeOf(plan);
    });
}
