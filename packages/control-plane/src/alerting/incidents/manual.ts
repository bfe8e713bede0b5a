import { AppError } from "@statusmesh/shared/errors";
import { newId } from "@statusmesh/shared/ids";
import { record } from "../../access/audit/service.ts";
import { type Ctx, inTransaction, requireScope } from "../../platform/context.ts";
import { lockEvidence } from "./evidence.ts";
import { openAsPerson } from "./evidence-decisions.ts";
import { findIncident, presentIncident } from "./find.ts";
import type { IncidentCreate } from "./narration-schema.ts";
import { writeUpdate } from "./narration.ts";
import { selectOpenIncident, selectPolicies } from "./queries.ts";
import type { Incident } from "./schema.ts";

/**
 * Opens an incident by hand, with its first public update, and notifies the channels of the target. A person closes it;
 * check results do not. Throws TARGET_NOT_FOUND, and INCIDENT_ALREADY_OPEN: a target has one open incident.
 */
export async function reportIncident(ctx: Ctx, input: IncidentCreate): Promise<Incident> {
  requireScope(ctx, "incidents:write");
  return await inTransaction(ctx, async (tx) => {
    const id = newId();
    await lockEvidence(tx, [input.target_id]);
    if ((await selectPolicies(tx.sql, tx.orgId, [input.target_id])).length === 0)
      throw new AppError("TARGET_NOT_FOUND", "Monitor not found.");
    const facts = { severity: input.severity, publicTitle: input.public_title };
    if (!(await openAsPerson(tx, input.target_id, id, facts))) {
      const open = await selectOpenIncident(tx.sql, tx.orgId, input.target_id);
      throw new AppError("INCIDENT_ALREADY_OPEN", "This monitor has an open incident: post an update to it instead.", {
        details: { incident_id: open },
      });
    }
    await writeUpdate(tx, id, { phase: "investigating", message: input.message }, true);
    const made = presentIncident(await findIncident(tx, id));
    await record(tx, { resourceId: id, after: made });
    return made;
  });
}
