import {
  checkKinds,
  checkTypes,
  type CheckSpec,
  type CheckType,
  isProbedType,
  kindOf,
} from "@statusmesh/shared/checks";
import type { CheckKind } from "@statusmesh/shared/checks/kind";
import { validate } from "@statusmesh/shared/schema/validate";
import { fieldsOf, type FormSection, formOf } from "../../../platform/html/schema-fields.ts";
import { type RegionPolicy, type Target, TargetCreate } from "../schema.ts";

/** A check kind as the form shows it. */
export interface KindForm extends Pick<
  CheckKind,
  "label" | "purpose" | "icon" | "defaultIntervalSecs" | "minIntervalSecs"
> {
  type: CheckType;
  sections: FormSection[];
  /** False for a kind whose monitors report by themselves: it has no interval and no regions. */
  probed: boolean;
}

/** The forms of all kinds; with a `stored` check, only that of its kind has its fields. */
export const kindForms = (check: CheckSpec | null, stored = check !== null): KindForm[] =>
  checkTypes.map((type) => {
    const { label, purpose, icon, defaultIntervalSecs, minIntervalSecs } = checkKinds[type];
    const own = check?.type === type ? check : null;
    const sections = stored && own === null ? [] : kindForm(kindOf({ type }), own);
    return { type, label, purpose, icon, defaultIntervalSecs, minIntervalSecs, sections, probed: isProbedType(type) };
  });

/** The fields of one kind, from its schema. `check` has its secrets masked. */
function kindForm(kind: CheckKind, check: CheckSpec | null): FormSection[] {
  const sections = formOf(kind.schema, { base: "/check", scope: kind.type, values: check as Values | null });
  const address = check === null ? null : addressOfSecrets(kind, check);
  for (const field of sections.flatMap(({ rows }) => rows.flat())) {
    if (address === null || field.name !== `/check${address}` || "view" in field) continue;
    field.hint =
      "For another scheme, host or port, enter stored credentials and headers again: they are not sent elsewhere.";
  }
  return sections;
}

type Values = Readonly<Record<string, unknown>>;

/** Pointer of the field that says where stored secrets are sent; null without stored secrets. */
function addressOfSecrets(kind: CheckKind, check: CheckSpec): string | null {
  let stored = false;
  kind.mapSecrets(check, (secret) => {
    stored = true;
    return secret;
  });
  return stored ? (kind.destination(check)?.pointer ?? null) : null;
}

/** The plain fields of a monitor, with the values of `target` or the defaults of the API. */
export const targetFields = (target: Target | null) =>
  fieldsOf(
    TargetCreate,
    [
      "name",
      "interval",
      "enabled",
      "alert_confirmations",
      "notify_recovery",
      "renotify_interval_secs",
      "severity",
      "flap_detection",
    ],
    { base: "", scope: "f", values: target },
  );

export const startPolicy = (target: Target | null): RegionPolicy =>
  target?.region_policy ?? (validate(TargetCreate.properties.region_policy, undefined) as RegionPolicy);

/** A target as the start of a new one: its secrets are not copied. `lost` says whether it has any. */
export function copyOf(target: Target): { copy: Target; lost: boolean } {
  const check = structuredClone(target.check) as Record<string, unknown>;
  let lost = false;
  kindOf(target.check).mapSecrets(target.check, (secret, pointer) => {
    lost = true;
    const [field, key] = pointer.slice(1).split("/").map(decodePointer) as [string, string | undefined];
    const value = check[field];
    if (key !== undefined && typeof value === "object" && !Array.isArray(value) && value !== null)
      delete (value as Record<string, unknown>)[key];
    else check[field] = null;
    return secret;
  });
  return { copy: { ...target, name: `${target.name.slice(0, 190)} (copy)`, check: check as CheckSpec }, lost };
}

/** RFC 6901, section 4. */
const decodePointer = (part: string): string => part.replaceAll("~1", "/").replaceAll("~0", "~");
