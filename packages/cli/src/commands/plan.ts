import type { Command } from "commander";
import { type PlanOptions, plans } from "../shell/file-options.ts";

export function define(command: Command): void {
  plans(command)
    .description("Show what apply would do. Exit code 2 when there are differences, 0 when there are none.")
    .action(async (paths: string[], options: PlanOptions) => {
      const { codeOf, planFiles, printPlan } = await import("../shell/planning.ts");
      const { plan } = await planFiles(paths, options);
      printPlan(plan, options);
      process.exitCode = codeOf(plan);
    });
}
