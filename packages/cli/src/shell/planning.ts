import { type Command, InvalidArgumentError, Option } from "commander";
import { isInDocument, mistakesOf } from "@statusmesh/shared/declared/project";
import { type Api, Refused } from "./api.ts";
import { connects, type ConnectionOptions } from "./connection.ts";
import { exits, Failure } from "./failure.ts";
import { hasDifferences, type Plan, planMarkdown, planText } from "./plans.ts";
import { jsonOption, print, printJson, screen, tell } from "./print.ts";
import { keepSecretsOption, type Project, type ProjectOptions, readsFiles, refuse } from "./project.ts";

export interface PlanOptions extends ConnectionOptions, ProjectOptions {
  prune?: boolean;
  maxDelete?: number;
  markdown?: boolean;
}

/** Adds files and options of `plan` and `apply`. */
export const plans = (command: Command): Command =>
  connects(readsFiles(command))
    .option("--prune", "delete objects that left the files, unless they say on_remove: keep or pause")
    .option("--max-delete <n>", "most deletions; default: 20 % of the project's objects, at least 10", (text) => {
      if (!/^\d{1,6}$/.test(text)) throw new InvalidArgumentError("It must be a whole number.");
      return Number(text);
    })
    .addOption(keepSecretsOption())
    .addOption(jsonOption().conflicts("markdown"))
    .addOption(new Option("--markdown", "print Markdown, for the comment of a pull request"));

export async function requestPlan(api: Api, project: Project, options: PlanOptions): Promise<Plan> {
  const { prune = false, maxDelete = null } = options;
  const body = { project: project.name, document: project.document, prune, max_delete: maxDelete };
  return (await sendDocument(api, "plan", body, project, options)) as unknown as Plan;
}

/** Posts the document; faults of the server are printed with their places in the files. Throws Failure. */
export async function sendDocument(
  api: Api,
  verb: "plan" | "apply",
  body: object,
  project: Project,
  options: ProjectOptions,
) {
  // Something moves where it takes long.
  const late = setTimeout(() => tell(verb === "plan" ? "smctl: planning ..." : "smctl: applying ..."), 2000);
  try {
    return await api.post(`/api/v1/config/${verb}`, body);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    if (error.code === "PLAN_STALE") throw new Failure(project.redact(error.message), exits.stale);
    if (!error.faults.some(({ field }) => isInDocument(field))) throw new Failure(project.redact(error.message));
    refuse(mistakesOf(error.faults, project), options);
    throw error;
  } finally {
    clearTimeout(late);
  }
}

export function printPlan(plan: Plan, { json, markdown }: PlanOptions): void {
  // The token is for the apply of this program.
  const { plan_token: _, ...shown } = plan;
  if (json === true) printJson(shown);
  else print(markdown === true ? planMarkdown(plan) : planText(plan, screen()));
}

/** Exit code of a plan that is not applied. */
export const codeOf = (plan: Plan): number => (hasDifferences(plan) ? exits.differences : exits.done);
