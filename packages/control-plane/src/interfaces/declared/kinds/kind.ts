import { AppError, type ErrorCode } from "@statusmesh/shared/errors";
import { below, type Faults } from "@statusmesh/shared/schema/faults";
import { mask, type SecretsDestination } from "@statusmesh/shared/secrets";
import type { Plan } from "../../../access/plans/service.ts";
import type { KnownCertificates } from "../../../monitoring/certificates/service.ts";
import type { Ctx } from "../../../platform/context.ts";
import { refuseMovedSecrets } from "../../../platform/crypto/kept-secrets.ts";
import type { FieldChange } from "../plan/compare.ts";
import type { Facts } from "../document/facts.ts";
import type { References } from "../plan/references.ts";

/** What every object of a document is judged by. */
export interface Judging {
  readonly ctx: Ctx;
  readonly faults: Faults;
  readonly references: References;
  readonly plan: Plan;
  /** The enabled regions, oldest first. */
  readonly regions: readonly string[];
  /** Channels of a monitor that names none, as they are after the apply. */
  readonly defaultChannels: readonly string[];
  /** Ids of all channels, those that the apply makes included. */
  readonly channels: ReadonlySet<string>;
  readonly certificates: KnownCertificates;
  /** Ids of the status pages that have the password that they declare. */
  readonly samePasswords: ReadonlySet<string>;
  /** Ids of the monitors that have a tag of a window after the apply. */
  readonly tagged: ReadonlyMap<string, readonly string[]>;
  /** Counts the monitors of windows. */
  readonly facts: Pick<Facts, "countWindow">;
}

/** An object that fits: how it differs from the stored one, and what an apply hands to the service of its kind. */
export interface Judged<Create, Edit> {
  readonly changes: readonly FieldChange[];
  readonly create: Create;
  /** Null for a new object. */
  readonly edit: Edit | null;
  /** Why nothing is done. */
  readonly warning?: string;
  /** What a save of the object alone would warn of. */
  readonly notes?: readonly string[];
}

/** Runs rules whose fields start at `pointer`; adds what they throw. */
export function judge<T>({ faults }: Judging, pointer: string, rules: () => T): T | undefined {
  return faults.check(() => below(pointer, rules));
}

export function refuse({ faults }: Judging, code: ErrorCode, message: string, field: string): void {
  faults.add(new AppError(code, message, { field }));
}

/** A list field of an object, for the references in it; adds a fault for another value. */
export function listIn(judging: Judging, fields: Record<string, unknown>, name: string, pointer: string): unknown[] {
  const value = fields[name] ?? [];
  if (Array.isArray(value)) return value;
  refuse(judging, "INVALID_BODY", `${name} must be a list.`, `${pointer}/${name}`);
  return [];
}

interface SecretsKind<Value> {
  mapSecrets(value: Value, change: (secret: string, pointer: string) => string): Value;
  secretsGoTo(value: Value): SecretsDestination | null;
}

/** The secrets of a value by pointer. */
export function secretsOf<Value>(kind: SecretsKind<Value>, value: Value): Map<string, string> {
  const secrets = new Map<string, string>();
  kind.mapSecrets(value, (secret, pointer) => {
    secrets.set(pointer, secret);
    return secret;
  });
  return secrets;
}

/** A value with the secrets of `before` in place of ***; throws where one would be sent to another server. */
export function withKept<Value>(kind: SecretsKind<Value>, before: Value, value: Value): Value {
  const secrets = secretsOf(kind, before);
  const kept = new Set<string>();
  const whole = kind.mapSecrets(value, (secret, pointer) => {
    if (secret !== mask || !secrets.has(pointer)) return secret;
    kept.add(pointer);
    return secrets.get(pointer)!;
  });
  if (kept.size > 0)
    refuseMovedSecrets(kind, { before, after: whole, isSent: (pointer) => !kept.has(pointer), base: "" });
  return whole;
}
