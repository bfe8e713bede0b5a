/** Shell syntax of a check: `sm-agent check <type> <subject> --option …`. Options come from the schema. */
export interface ShellForm {
  /** The subject in the help: `<host:port>`. */
  readonly subject: string;
  /** The fields set by the subject. Schema and rules validate them. */
  read(subject: string): Record<string, unknown>;
  /** Fields whose option is not just the dashed name with a plain value. */
  readonly options?: Readonly<Record<string, ShellOption>>;
}

export interface ShellOption {
  /** Name of the option, if it differs from the field. */
  readonly name?: string;
  /** Description of the option, if it differs from the field's. */
  readonly words?: string;
  /** Value placeholder in the help. */
  readonly takes?: string;
  /** Parses the values of the option: one, or several when repeated. Throws ShellError. */
  read?(texts: readonly string[]): unknown;
  /** May be given more than once. */
  readonly repeated?: true;
  /**
   * `always`: the value is a secret and comes from a file or the environment only. `some`: it may be one and can also
   * come from there, one text per line.
   */
  readonly secret?: "always" | "some";
}

/** An invalid value of an option. The message follows the option's name: `must be …`. */
export class ShellError extends Error {
  override readonly name = "ShellError";
}

/** `db.example.org:5432`, `[2001:db8::1]:5432`, or a host alone. Two colons without brackets are an IPv6 address. */
export function readHostAndPort(text: string): { host: string; port?: number | string } {
  const [, v6, host, port] = /^(?:\[([^\]]*)\]|([^:]*))(?::(.*))?$/.exec(text) ?? [];
  const name = v6 ?? host;
  if (name === undefined) return { host: text };
  return port === undefined ? { host: name } : { host: name, port: wholeOr(port) };
}

/** The number in a text, or the text itself, which the schema then refuses. */
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

/** An option that takes a time with its unit. */
export const durationOption = (name: string): ShellOption => ({
  name,
  takes: "500ms",
  read: ([text = ""]) => duration(text),
});
