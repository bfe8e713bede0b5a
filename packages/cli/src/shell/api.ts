import type { IncomingHttpHeaders } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import type { ApiFault } from "@statusmesh/shared/declared/project";
import { type Json, parsedJson } from "@statusmesh/shared/json";
import { isLoopback } from "@statusmesh/shared/net/address";
import { codeOrMessage } from "@statusmesh/shared/thrown";
import { version } from "../package.ts";
import { Failure, progressLines, Refused, tell, Unreachable } from "./output.ts";
import { ProxyError } from "./proxy.ts";
import { type Reply, requestsTo, type Send } from "./requests.ts";

const idleMs = 120_000;
const maxBytes = 256 * 1_048_576;
/** Longest pause that the server may ask for. */
const maxPauseSecs = 60;
const mostTries = 5;
/** A request that takes longer is said. */
const quietMs = 2000;

/** The JSON API of one server. */
export class Api {
  readonly url: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #request: Send;
  /** The server's clock minus ours, ms. */
  #ahead = 0;

  constructor({ url, token, org }: { url: string; token: string; org?: string | null }) {
    this.url = url;
    this.#headers = {
      accept: "application/json",
      authorization: `Bearer ${token}`,
      "user-agent": `smctl/${version}`,
      ...(org == null ? {} : { "x-sm-org": org }),
    };
    this.#request = requestsTo(new URL(url));
  }

  /** The time by the clock of the server as of its last reply, at most a second late. Unix ms. */
  now = (): number => Date.now() + this.#ahead;

  get = async (path: string): Promise<Json> => await this.send("GET", path);
  post = async (path: string, body?: unknown): Promise<Json> => await this.send("POST", path, body);
  patch = async (path: string, body: unknown): Promise<Json> => await this.send("PATCH", path, body);

  /** Every item of a list, or the first `most`. */
  async all(path: string, most = Infinity): Promise<Json[]> {
    const items: Json[] = [];
    const progress = progressLines();
    for (;;) {
      const limit = Math.min(1000, most - items.length);
      const page = await this.get(`${path}${path.includes("?") ? "&" : "?"}limit=${limit}&offset=${items.length}`);
      const more = page["items"] as Json[];
      items.push(...more);
      const wanted = Math.min(most, page["total"] as number);
      if (more.length === 0 || items.length >= wanted) return items;
      progress.step("the list", items.length, wanted);
    }
  }

  /**
   * Resolves to the body of the reply; `{}` for none. A request that was not carried out because of a limit (429) is
   * repeated. Throws {@link Refused} and {@link Unreachable}.
   */
  async send(method: string, path: string, body?: unknown): Promise<Json> {
    for (let tries = 1; ; tries++) {
      const { status, headers, text } = await this.#exchange(method, path, body);
      const date = Date.parse(headers.date ?? "");
      if (!Number.isNaN(date)) this.#ahead = date - Date.now();
      const pause = Number(headers["retry-after"] ?? 1);
      if (status === 429 && tries < mostTries && pause <= maxPauseSecs) {
        await sleep(Math.max(pause, 1) * 1000);
        continue;
      }
      const reply = parse(text);
      if (status >= 200 && status < 300) {
        if (reply !== null || text === "") return reply ?? {};
        throw new Failure(`${this.url} answered ${method} ${path} with something that is no JSON. Is it StatusMesh?`);
      }
      throw refusal(this.url, status, headers, reply);
    }
  }

  async #exchange(method: string, path: string, body: unknown): Promise<Reply> {
    const content = body === undefined ? undefined : JSON.stringify(body);
    const headers: Record<string, string | number> = { ...this.#headers };
    if (content !== undefined)
      Object.assign(headers, { "content-type": "application/json", "content-length": Buffer.byteLength(content) });
    const late = setTimeout(() => tell("smctl: waiting for the server ..."), quietMs);
    try {
      return await this.#request({ method, url: new URL(`${this.url}${path}`), headers, content, maxBytes, idleMs });
    } catch (error) {
      if (error instanceof ProxyError) throw new Unreachable(error.message);
      throw new Unreachable(`${this.url} does not answer (${codeOrMessage(error)}).`);
    } finally {
      clearTimeout(late);
    }
  }
}

function parse(text: string): Json | null {
  const value = parsedJson(text);
  return typeof value === "object" && value !== null ? (value as Json) : null;
}

function refusal(url: string, status: number, headers: IncomingHttpHeaders, reply: Json | null): Failure {
  if (status >= 300 && status < 400)
    return new Failure(`${url} leads elsewhere, to ${String(headers.location).slice(0, 200)}. Use that address.`);
  const error = reply?.["error"] as
    | { code: string; message: string; field: string | null; details: Json | null; trace_id: string | null }
    | undefined;
  if (error === undefined) {
    const message = `${url} answered with status ${status}, and not as StatusMesh does.`;
    return status >= 500 ? new Unreachable(message) : new Failure(message);
  }
  const { code, message, field, details, trace_id: trace } = error;
  const faults = details?.["errors"] as readonly ApiFault[] | undefined;
  const pointer = field ?? (details?.["pointer"] as string | undefined) ?? null;
  const whole = status >= 500 && trace !== null ? `${message} (trace ${trace})` : message;
  return new Refused(status, code, whole, faults ?? [{ field: pointer, code, message }]);
}

/** Throws Failure for an address to which a token would be sent unencrypted. */
export function refusePlainHttp(url: string, isAllowed: boolean): void {
  const { protocol, hostname, host } = new URL(url);
  if (isAllowed || protocol === "https:" || isLoopback(hostname)) return;
  throw new Failure(
    `the token would be sent unencrypted to ${host}. Use an https URL, or --insecure-http on a network that you trust.`,
  );
}
