import type { Command } from "commander";
import { Failure, print, printJson, tell } from "../shell/output.ts";
import { type PlanOptions, plans } from "../shell/options.ts";
import { appliedText, hasDifferences, type Plan, planMarkdown } from "../shell/plans.ts";

interface Options extends PlanOptions {
  dryRun?: boolean;
  yes?: boolean;
}

export function plan(command: Command): void {
  plans(command)
    .description("Show what apply would do. Exit code 2 when there are differences, 0 when there are none.")
    .action(async (paths: string[], options: PlanOptions) => {
      const { codeOf, planFiles, printPlan } = await import("../shell/planning.ts");
      const planned = await planFiles(paths, options);
      printPlan(planned.plan, options);
      process.exitCode = codeOf(planned.plan);
    });
}

export function apply(command: Command): void {
  plans(command)
    .description(
      "Apply the files to the server, in one transaction. Asks at a terminal; without one a deletion needs " +
        "--yes. Exit code 3 when the configuration was changed between plan and apply: run it again.",
    )
    .option("--dry-run", "only the plan: exit code 2 when there are differences")
    .option("--yes", "do not ask, and delete")
    .action(applyFiles);
}

async function applyFiles(paths: string[], options: Options): Promise<void> {
  const { codeOf, planFiles, printPlan, sendDocument } = await import("../shell/planning.ts");
  const { api, project, plan } = await planFiles(paths, options);
  const { json, markdown, dryRun } = options;
  const isText = json !== true && markdown !== true;
  if (dryRun === true || isText || !hasDifferences(plan)) printPlan(plan, options);
  if (dryRun === true) process.exitCode = codeOf(plan);
  if (dryRun === true || !hasDifferences(plan)) return;
  await confirm(plan, options);
  const body = { plan_token: plan.plan_token };
  const applied = (await sendDocument(api, "apply", body, project, options)) as unknown as Plan;
  if (json === true) printJson(applied);
  else print(isText ? appliedText(applied) : `${planMarkdown(applied)}\n${appliedText(applied)}`);
}

/** Asks at a terminal; without one a deletion needs --yes. Throws Failure. */
async function confirm({ summary }: Plan, { yes, json }: Options): Promise<void> {
  if (yes === true) return;
  const deletions = summary["delete"] ?? 0;
  if (!process.stdin.isTTY || !process.stderr.isTTY || json === true) {
    if (deletions > 0) throw new Failure(`${deletions} would be deleted: that needs --yes. Nothing was applied.`);
    return;
  }
  const { createInterface } = await import("node:readline/promises");
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  // Ctrl-C and Ctrl-D end the question without an answer.
  const answer = await lines.question("Apply this plan? Type yes: ").catch(() => {
    tell("");
    return "";
  });
  lines.close();
  if (answer.trim() !== "yes") throw new Failure("Nothing was applied.");
}
