import { type CheckSpec, isCheckType, kindOf } from "@statusmesh/shared/checks";
import { type ResealedBatch, resealRows } from "../crypto/reseal.ts";
import { inTransaction, type System } from "../context.ts";
import * as queries from "./queries.ts";

const placeOf = (targetId: string, pointer: string): string => `targets/${targetId}${pointer}`;

/** The check as it is stored: every secret sealed for its place. */
export function sealSpec({ sealer }: Pick<System, "sealer">, targetId: string, spec: CheckSpec): CheckSpec {
  return kindOf(spec).mapSecrets(spec, (secret, pointer) => sealer.seal(secret, placeOf(targetId, pointer))) as CheckSpec;
}

/** The check as the agent runs it: every secret opened. Never logged, never answered to a person. */
export function openSpec({ sealer }: Pick<System, "sealer">, targetId: string, spec: CheckSpec): CheckSpec {
  return kindOf(spec).mapSecrets(spec, (secret, pointer) => sealer.open(secret, placeOf(targetId, pointer))) as CheckSpec;
}

/**
 * Seals up to `limit` targets of the instance, those after `after` in the order of ids, under the key in use. For
 * rotate-kek. To agents nothing has changed, so they hear nothing of it.
 */
export async function resealTargets(system: System, after: string | null, limit: number): Promise<ResealedBatch> {
  return await inTransaction(system, async ({ sql, sealer }) =>
    resealRows<{ id: string; spec: CheckSpec }, CheckSpec>({
      sealer,
      limit,
      rows: await queries.lockSpecs(sql, after, limit),
      map({ id, spec }, change) {
        if (!isCheckType(spec.type)) throw new Error("this version of StatusMesh does not know its kind");
        return kindOf(spec).mapSecrets(spec, (sealed, pointer) => change(sealed, placeOf(id, pointer))) as CheckSpec;
      },
      store: async (id, spec) => await queries.storeSpec(sql, id, spec),
    }),
  );
}
