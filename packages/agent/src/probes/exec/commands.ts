import { closeSync, fstatSync, openSync, readFileSync, realpathSync, statSync } from "node:fs";
import { dirname, isAbsolute } from "node:path";
import { parse, TomlError } from "smol-toml";
import { isObject } from "@statusmesh/shared/json";
import { commandPattern } from "@statusmesh/shared/checks/exec";
import { codeOrMessage } from "@statusmesh/shared/thrown";

/** What a key of the file runs. */
export interface Command {
  /** The program, an absolute path, and its arguments. */
  readonly argv: readonly [string, ...string[]];
  readonly cwd?: string;
  readonly env: Readonly<Record<string, string>>;
  readonly uid?: number;
  readonly gid?: number;
}

export type Commands = ReadonlyMap<string, Command>;

/** What is wrong with the file: `file:line: what, and what would be right`. */
export class CommandsError extends Error {
  override readonly name = "CommandsError";
}

const maxBytes = 1_048_576;
const maxCommands = 1000;

/**
 * Reads a file of commands: TOML, a table for each key with `argv`, `cwd`, `env` and `user`. Throws
 * {@link CommandsError} for a mistake, and for a file that somebody else could change: it decides what this account
 * runs.
 */
export function readCommands(file: string): Commands {
  const text = readOwn(file);
  const wrong = (line: number, what: string): CommandsError => new CommandsError(`${file}:${line}: ${what}`);
  let tables: Record<string, unknown>;
  try {
    tables = parse(text);
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const reason = error.message.split("\n", 1)[0]!.replace("Invalid TOML document: ", "");
    throw wrong(error.line, `column ${error.column} is not valid TOML: ${reason}`);
  }
  const keys = Object.keys(tables);
  if (keys.length > maxCommands) throw wrong(1, `${keys.length} commands; at most ${maxCommands} are read.`);
  return new Map(
    keys.map((key) => {
      const at = (field?: string): number => lineOf(text, key, field);
      if (!new RegExp(commandPattern).test(key))
        throw wrong(at(), `"${key}" cannot be a key: use 1 to 40 small letters, digits, _ and -.`);
      return [key, commandOf(key, tables[key], (field, what) => wrong(at(field), what))];
    }),
  );
}

type Wrong = (field: string | undefined, what: string) => CommandsError;

const fields = ["argv", "cwd", "env", "user"];

function commandOf(key: string, table: unknown, wrong: Wrong): Command {
  if (!isTable(table)) throw wrong(undefined, `"${key}" is no command: write a table [${key}] with argv.`);
  const unknown = Object.keys(table).find((field) => !fields.includes(field));
  if (unknown !== undefined) throw wrong(unknown, `there is no field "${unknown}": ${fields.join(", ")} are read.`);
  const { argv, cwd, env = {}, user } = table;
  if (argv === undefined) throw wrong(undefined, `[${key}] lacks argv: the program and its arguments.`);
  if (!Array.isArray(argv) || argv.length === 0 || !argv.every(isArgument))
    throw wrong("argv", "argv is a list of texts: the program and its arguments.");
  if (!isAbsolute(argv[0] as string))
    throw wrong("argv", `the program of argv is an absolute path, and not "${argv[0]}": no folder is searched.`);
  if (cwd !== undefined && !(isArgument(cwd) && isAbsolute(cwd))) throw wrong("cwd", "cwd is an absolute path.");
  if (!isTable(env) || !Object.entries(env).every(([name, value]) => /^[A-Za-z_]\w*$/.test(name) && isArgument(value)))
    throw wrong("env", "env is a table of names of variables and texts.");
  return {
    argv: argv as [string, ...string[]],
    env: { ...env } as Record<string, string>,
    ...(cwd === undefined ? {} : { cwd }),
    ...(user === undefined ? {} : accountOf(user, wrong)),
  };
}

const isTable = (value: unknown): value is Record<string, unknown> => isObject(value) && !(value instanceof Date);
const isArgument = (value: unknown): value is string => typeof value === "string" && !value.includes("\0");

/** The account of a name in /etc/passwd, without supplementary groups. */
function accountOf(user: unknown, wrong: Wrong): { uid: number; gid: number } {
  if (typeof user !== "string") throw wrong("user", "user is the name of an account.");
  const line = readFileSync("/etc/passwd", "utf8")
    .split("\n")
    .find((one) => one.startsWith(`${user}:`));
  const [, , uid, gid] = line?.split(":") ?? [];
  if (uid === undefined || gid === undefined) throw wrong("user", `this machine has no account "${user}".`);
  const own = process.getuid?.();
  if (own !== 0 && own !== Number(uid))
    throw wrong("user", `only an agent that runs as root can run a command as ${user}.`);
  return { uid: Number(uid), gid: Number(gid) };
}

/** The text of a file that only root and the own account can change. */
function readOwn(file: string): string {
  const refuse = (what: string): CommandsError => new CommandsError(`${file}: ${what}`);
  let fd: number;
  try {
    fd = openSync(file, "r");
  } catch (error) {
    throw refuse(`it cannot be read (${codeOrMessage(error)}).`);
  }
  try {
    const { uid, mode, size } = fstatSync(fd);
    if ((mode & 0o170_000) !== 0o100_000) throw refuse("it is no regular file.");
    if (size > maxBytes) throw refuse(`it has ${size} bytes; at most ${maxBytes} are read.`);
    const own = process.getuid?.();
    if (own !== undefined) {
      if (uid !== 0 && uid !== own)
        throw refuse("it belongs to another account. Run: chown root, or give it to the agent's account.");
      if ((mode & 0o022) !== 0) throw refuse(`others may write it (mode ${octal(mode)}). Run: chmod go-w ${file}`);
      const folder = dirname(realpathSync(file));
      const { uid: holder, mode: folderMode } = statSync(folder);
      // In a folder with the sticky bit others can replace only what is theirs.
      if ((holder !== 0 && holder !== own) || ((folderMode & 0o022) !== 0 && (folderMode & 0o1000) === 0))
        throw refuse(`others may replace it in ${folder} (mode ${octal(folderMode)}). Run: chmod go-w ${folder}`);
    }
    return readFileSync(fd, "utf8");
  } finally {
    closeSync(fd);
  }
}

const octal = (mode: number): string => (mode & 0o7777).toString(8).padStart(4, "0");

/** The line of a command's table, or of a field in it; 1 where it is written in a way that is not searched. */
function lineOf(text: string, key: string, field?: string): number {
  const lines = text.split("\n");
  const name = (of: string): string => `["']?${of.replaceAll(/[^\w-]/g, "\\$&")}["']?`;
  const table = lines.findIndex((line) => new RegExp(`^\\s*\\[?\\s*${name(key)}\\s*[\\].=]`).test(line));
  if (table < 0) return 1;
  if (field === undefined) return table + 1;
  const own = new RegExp(`(?:^|[.{,\\s])${name(field)}\\s*[\\].=]`);
  const at = lines.findIndex((line, number) => number >= table && own.test(line));
  return (at < 0 ? table : at) + 1;
}
