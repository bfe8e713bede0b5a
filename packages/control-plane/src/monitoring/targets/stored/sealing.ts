import { checkKinds, type CheckSpec, isCheckType, kindOf } from "@statusmesh/shared/checks";
import { resealer } from "../../../platform/crypto/reseal.ts";
import {
  countUnreadable,
  openPartly,
  type PartlyOpened,
  type ReadBatch,
  unreadable,
} from "../../../platform/crypto/opening.ts";
import { UnreadableSecret } from "../../../platform/crypto/seal.ts";
import type { System } from "../../../platform/context.ts";
import * as queries from "../queries.ts";

/** The fields of each kind in the order of its schema: the database keeps them in an order of its own. */
const fieldsOf = new Map<string, readonly (readonly [name: string, fallback: unknown])[]>(
  Object.values(checkKinds).map((kind) => [
    kind.type,
    Object.entries(kind.schema.properties as Record<string, { default?: unknown }>).map(
      ([name, node]) => [name, node.default] as const,
    ),
  ]),
);

/** The stored check, its type first. A field that was added after it was stored reads as its default. */
export function completeSpec(spec: CheckSpec): CheckSpec {
  const stored = spec as unknown as Record<string, unknown>;
  return Object.fromEntries(
    fieldsOf.get(spec.type)!.flatMap(([field, fallback]) => {
      const value = field in stored ? stored[field] : fallback;
      return value === undefined ? [] : [[field, value]];
    }),
  ) as unknown as CheckSpec;
}

/** Additional data of the seal. The field's name is not escaped as in a pointer, because stored rows have it so. */
const placeOf = (targetId: string, pointer: string): string =>
  `targets/${targetId}${pointer.replaceAll("~1", "/").replaceAll("~0", "~")}`;

/** The check as it is stored: every secret sealed for its place. */
export function sealSpec({ sealer }: Pick<System, "sealer">, targetId: string, spec: CheckSpec): CheckSpec {
  return kindOf(spec).mapSecrets(spec, (secret, pointer) =>
    sealer.seal(secret, placeOf(targetId, pointer)),
  ) as CheckSpec;
}

/**
 * The check as the agent runs it: complete, and every secret opened. Never logged, never answered to a person. Throws
 * SECRET_UNREADABLE.
 */
export function openSpec({ sealer }: Pick<System, "sealer">, targetId: string, spec: CheckSpec): CheckSpec {
  return kindOf(spec).mapSecrets(completeSpec(spec), (secret, pointer) => {
    try {
      return sealer.open(secret, placeOf(targetId, pointer));
    } catch (error) {
      if (!(error instanceof UnreadableSecret)) throw error;
      throw unreadable(`/check${pointer}`, "the check cannot run", error);
    }
  }) as CheckSpec;
}

/** {@link openSpec} that leaves secrets closed which do not open, for an edit that may replace them. */
export function openSpecPartly(
  { sealer }: Pick<System, "sealer">,
  targetId: string,
  spec: CheckSpec,
): PartlyOpened<CheckSpec> {
  return openPartly(
    sealer,
    spec,
    (value, change) => kindOf(value).mapSecrets(value, change) as CheckSpec,
    (pointer) => placeOf(targetId, pointer),
  );
}

/**
 * Of up to `limit` targets of the instance, those after `after`: how many hold a secret that does not open. For the
 * doctor.
 */
export async function unreadableTargets(
  { sql, sealer }: System,
  after: string | null,
  limit: number,
): Promise<ReadBatch> {
  return countUnreadable(await queries.selectSpecs(sql, after, limit), limit, ({ id, spec }) => {
    if (isCheckType(spec.type)) openSpec({ sealer }, id, spec);
  });
}

/** Seals checks of targets under the current key. Agents are not sent the rows: their checks stay the same. */
export const resealTargets = resealer<{ id: string; spec: CheckSpec }, CheckSpec>({
  rows: (sql, after, limit) => queries.selectSpecs(sql, after, limit, { lock: true }),
  map({ id, spec }, change) {
    if (!isCheckType(spec.type)) throw new Error("this version of StatusMesh does not know its kind");
    return kindOf(spec).mapSecrets(spec, (sealed, pointer) => change(sealed, placeOf(id, pointer))) as CheckSpec;
  },
  store: queries.storeSpec,
});
