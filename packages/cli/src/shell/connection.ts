import * as fs from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { type Command, InvalidArgumentError, Option } from "commander";
import { codeOrMessage } from "@statusmesh/shared/thrown";
import type { Api } from "./api.ts";
import { Failure } from "./output.ts";

export interface ConnectionOptions {
  url?: string;
  token?: string;
  org?: string;
  insecureHttp?: boolean;
}

/** What `login` stores. */
interface Stored {
  url: string;
  token: string;
}

/** Adds the options of commands that use the API. */
export function connects(command: Command): Command {
  return command
    .addOption(new Option("--url <url>", "address of the server (env: SM_URL)").argParser(serverUrl))
    .addOption(
      new Option("--token <token>", "API token; visible to others on this machine (env: SM_TOKEN, SM_TOKEN_FILE)"),
    )
    .addOption(new Option("--org <slug>", "organisation, for a token that is bound to none (env: SM_ORG)"))
    .addOption(
      new Option("--insecure-http", "send the token over plain http to another machine (env: SM_INSECURE_HTTP=true)"),
    );
}

/** The file of `login`. */
/** The file that `smctl login` writes. */
export const storePath = (): string => join(process.env["XDG_CONFIG_HOME"] || join(homedir(), ".config"), "statusmesh");

/** The API by options, else environment, else the file of `login`. Throws Failure. */
export async function connectionOf(options: ConnectionOptions): Promise<Api> {
  const { url: givenUrl, token: givenToken } = given(options);
  const stored = givenUrl === undefined || givenToken === undefined ? readStore() : null;
  const url = givenUrl ?? stored?.url;
  if (url === undefined) throw new Failure("no server is given. Use --url or SM_URL, or smctl login once.");
  // A stored token is for the server that it was stored with.
  const isSame = stored !== null && new URL(stored.url).origin === new URL(url).origin;
  const token = givenToken ?? (isSame ? stored.token : undefined);
  if (token === undefined)
    throw new Failure(`no token for ${url} is given. Use SM_TOKEN, SM_TOKEN_FILE or --token, or smctl login.`);
  return await openApi(url, token, options);
}

/** Address and token by options, else environment. Throws Failure. */
export function given(options: ConnectionOptions): { url: string | undefined; token: string | undefined } {
  const { env } = process;
  const url = options.url ?? (env["SM_URL"] ? parsedUrl(env["SM_URL"], "SM_URL") : undefined);
  return { url, token: options.token ?? tokenOf(env) };
}

/** Throws Failure for what is no token, and for one that would be sent unencrypted. */
export async function openApi(url: string, token: string, options: ConnectionOptions): Promise<Api> {
  // A header with a line break would be another one.
  if (!/^[\x21-\x7e]{1,500}$/.test(token)) throw new Failure("the token is not valid: it is one word without spaces.");
  // Help needs neither TLS nor proxies.
  const { Api, refusePlainHttp } = await import("./api.ts");
  refusePlainHttp(url, options.insecureHttp === true || process.env["SM_INSECURE_HTTP"] === "true");
  return new Api({ url, token, org: options.org ?? (process.env["SM_ORG"] || null) });
}

function tokenOf(env: NodeJS.ProcessEnv): string | undefined {
  if (env["SM_TOKEN"]) return env["SM_TOKEN"].trim();
  const file = env["SM_TOKEN_FILE"];
  if (!file) return undefined;
  try {
    return fs.readFileSync(file, "utf8").trim();
  } catch (error) {
    throw new Failure(`the file of SM_TOKEN_FILE, ${file}, cannot be read (${codeOrMessage(error)}).`);
  }
}

function readStore(): Stored | null {
  const path = storePath();
  try {
    const handle = fs.openSync(path, "r");
    try {
      const { mode } = fs.fstatSync(handle);
      if (process.platform !== "win32" && (mode & 0o077) !== 0)
        throw new Failure(`${path} has a token and can be read by others. Run: chmod 600 ${path}`);
      const { url, token } = JSON.parse(fs.readFileSync(handle, "utf8")) as Partial<Stored>;
      if (typeof url !== "string" || typeof token !== "string") throw new SyntaxError();
      return { url: parsedUrl(url, path), token };
    } finally {
      fs.closeSync(handle);
    }
  } catch (error) {
    if (error instanceof Failure) throw error;
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    if (error instanceof SyntaxError)
      throw new Failure(`${path} is not what smctl login wrote. Run smctl login again.`);
    throw new Failure(`${path} cannot be read (${codeOrMessage(error)}).`);
  }
}

/** Stores address and token for the owner alone; the file is complete or the former one. */
export function writeStore(stored: Stored): string {
  const path = storePath();
  fs.mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const next = `${path}.${process.pid}`;
  fs.rmSync(next, { force: true });
  fs.writeFileSync(next, `${JSON.stringify(stored)}\n`, { mode: 0o600, flag: "wx" });
  fs.renameSync(next, path);
  return path;
}

function serverUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || (url.protocol !== "http:" && url.protocol !== "https:"))
    throw new InvalidArgumentError("It must be an http or https URL.");
  if (url.username !== "" || url.password !== "") throw new InvalidArgumentError("Credentials do not belong in it.");
  return `${url.origin}${url.pathname.replace(/\/+$/, "")}`;
}

function parsedUrl(text: string, from: string): string {
  try {
    return serverUrl(text);
  } catch (error) {
    throw new Failure(`${from}: ${(error as Error).message}`);
  }
}
