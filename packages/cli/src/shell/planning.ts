import { isInDocument, mistakesOf } from "@statusmesh/shared/declared/project";
import type { Api } from "./api.ts";
import { connectionOf } from "./connection.ts";
import { exits, Failure, print, printJson, Refused, screen } from "./output.ts";
import type { PlanOptions, ProjectOptions } from "./options.ts";
import { hasDifferences, type Plan, planMarkdown, planText } from "./plans.ts";
import { type Project, readProject, refuse } from "./project.ts";

/** Reads the files and asks the server for the plan. Throws Failure. */
export async function planFiles(
  paths: readonly string[],
  options: PlanOptions,
): Promise<{ api: Api; project: Project; plan: Plan }> {
  const project = readProject(paths, options);
  const api = await connectionOf(options);
  return { api, project, plan: await requestPlan(api, project, options) };
}

async function requestPlan(api: Api, project: Project, options: PlanOptions): Promise<Plan> {
  const { prune = false, maxDelete = null } = options;
  const body = { prune, max_delete: maxDelete };
  return (await sendDocument(api, "plan", body, project, options)) as unknown as Plan;
}

/** Posts the document; errors of the server are printed with file and line. Throws Failure. */
export async function sendDocument(
  api: Api,
  verb: "plan" | "apply",
  body: object,
  project: Project,
  options: ProjectOptions,
) {
  try {
    const { name, document, fields } = project;
    return await api.post(`/api/v1/config/${verb}`, { project: name, document: fields.marked(document), ...body });
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    if (error.code === "PLAN_STALE") throw new Failure(project.redact(error.message), exits.stale);
    if (!error.faults.some(({ field }) => isInDocument(field))) throw new Failure(project.redact(error.message));
    refuse(mistakesOf(error.faults, project), options);
    throw error;
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
