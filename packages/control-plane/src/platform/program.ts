import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const packageJson = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as {
  version: string;
};

/** Version of this release, from its package.json. */
export const version = packageJson.version;

/** The script behind `npm run statusmesh`; only a clone has it. */
const cloneScript = fileURLToPath(new URL("../../../../infra/scripts/statusmesh.mjs", import.meta.url));
const cloneRoot = fileURLToPath(new URL("../../../..", import.meta.url)).replace(/\/$/, "");

type Env = Readonly<Record<string, string | undefined>>;

/** Settings without secrets that decide which database a command opens and which address it prints. */
const decisive = ["SM_CONFIG", "SM_DATA__DIR", "SM_SERVER__BIND", "SM_SERVER__PUBLIC_URL"];

/**
 * A command of this program as typed in this installation: `npm run -s statusmesh -- doctor` in a clone, else
 * `statusmesh doctor`; SM_COMMAND replaces the program. Without folders, so pages may show it.
 */
export function ownCommand(args: string, env: Env = process.env): string {
  const program = env["SM_COMMAND"] || (existsSync(cloneScript) ? "npm run -s statusmesh --" : "statusmesh");
  return `${program} ${args}`;
}

/**
 * {@link ownCommand} for another shell than that of the service: with the settings of its environment. npm runs scripts
 * in the folder of the clone, so a service that runs elsewhere also names its data folder.
 */
export function ownCommandHere(args: string, dataDir: string, env: Env = process.env, cwd = process.cwd()): string {
  const command = ownCommand(args, env);
  if (!command.startsWith("npm ")) return command;
  const settings = new Map(decisive.flatMap((name) => (env[name] ? [[name, env[name]]] : [])));
  if (cwd !== cloneRoot || settings.has("SM_DATA__DIR")) settings.set("SM_DATA__DIR", dataDir);
  return [...settings].map(([name, value]) => `${name}=${quoted(value)} `).join("") + command;
}

const quoted = (value: string): string =>
  /^[\w./:@%+,-]+$/.test(value) ? value : `'${value.replaceAll("'", "'\\''")}'`;
