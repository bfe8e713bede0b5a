/**
 * How a form shows a field: the keyword `form` of the field's schema. Bounds and defaults come from the schema
 * itself. A field without the keyword is shown with its name and its description.
 */
export interface FieldForm {
  /** Default: the field's name in words. */
  label?: string;
  /** One fact. */
  hint?: string;
  /** Replaces the hint while the stored value is masked. */
  maskedHint?: string;
  /** Default: the first example of the schema. */
  placeholder?: string;
  /**
   * Default: `password` for secrets, `lines` for records, `select` for enums, else by the type. `status` is a range,
   * one or several status codes as one text, `expectations` a list of them, one per line, `duration` milliseconds as
   * `10 min`.
   */
  control?: "text" | "url" | "password" | "lines" | "status" | "expectations" | "duration";
  /** Choices of a text whose values are not in the schema, or display names of an enum's values. */
  options?: Readonly<Record<string, string>>;
  /** Title of the collapsed section that holds the field. */
  section?: string;
  /** Shows the field only while another field has one of these values. */
  when?: { field: string; is: readonly string[] };
  /** Puts the field into the row of the field before it. */
  beside?: true;
  /** Name of a view that shows the field, for values without a plain control; it also shows the fields in `with`. */
  view?: {
    name:
      | "targets/fields/certificates"
      | "targets/fields/credentials"
      | "targets/fields/group-members"
      | "targets/fields/heartbeat-due";
    with?: readonly string[];
  };
}

declare module "typebox" {
  interface TSchemaOptions {
    form?: FieldForm;
  }
}
