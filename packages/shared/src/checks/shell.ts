/** How a check is written in a shell: `sm-agent check <type> <subject> --option …`. Options are made from the schema. */
export interface ShellForm {
  /** What stands after the kind, for the help: `<host:port>`. */
  readonly subject: string;
  /** The fields that the subject sets. What is wrong with them, the schema and the rules say. */
  read(subject: string): Record<string, unknown>;
  /** Fields whose option is not just its name with dashes and a plain value. */
  readonly options?: Readonly<Record<string, ShellOption>>;
}

export interface ShellOption {
  /** Name of the option, where it is not the field's. */
  readonly name?: string;
  /** What it is for, where the description of the field does not say it for an option. */
  readonly words?: string;
  /** What it takes, for the help. */
  readonly takes?: string;
  /** The field's value, from the texts of the option: one, or more where it is repeated. Throws ShellError. */
  read?(texts: readonly string[]): unknown;
  /** May be given more than once. */
  readonly repeated?: true;
  /**
   * `always`: the value is a secret, and comes from a file or the environment only. `some`: it may be one, and can come from
   * there as well, one text a line.
   */
  readonly secret?: "always" | "some";
}

/** A text that cannot be what its option takes. The message follows the option's name: `must be …`. */
export class ShellError extends Error {
  override readonly name = "ShellError";
}

/** `db.example.org:5432`, `[2001:db8::1]:5432`, or a host alone. A second colon without brackets belongs to an IPv6 address. */
export function hostAndPort(text: string): { host: string; port?: number | string } {
  const [, v6, host, port] = /^(?:\[([^\]]*)\]|([^:]*))(?::(.*))?$/.exec(text) ?? [];
  const name = v6 ?? host;
  if (name === undefined) return { host: text };
  return port === undefined ? { host: name } : { host: name, port: wholeOr(port) };
}

/** The number that a text is, or the text itself, for the schema to complain about. */
export const wholeOr = (text: string): number | string => (/^-?\d{1,15}$/.test(text) ? Number(text) : text);

const units: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000 };

/** Milliseconds in `10s`, `1.5s`, `500ms` or `1m`. */
export function duration(text: string): number {
  const [, amount = "", unit = ""] = /^(\d{1,9}(?:\.\d{1,3})?)(ms|s|m)$/.exec(text) ?? [];
  const factor = units[unit];
  if (factor === undefined)
    throw new ShellError(`must be a time with its unit, for example 10s or 500ms, and not "${text}"`);
  return Math.round(Number(amount) * factor);
}
