import { setTimeout as sleep } from "node:timers/promises";
import { isLoopback } from "@statusmesh/shared/net/address";
import { codeOrMessage, messageOf } from "@statusmesh/shared/thrown";
import { Failure } from "../../shell/output.ts";
import { ProxyError } from "../../shell/proxy.ts";
import { type Reply, requestsTo, type Send } from "../../shell/requests.ts";
import { version } from "../../package.ts";

export interface FetchOptions {
  /** Address of the API; a path of it is kept. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly insecureHttp?: boolean;
}

const maxBytes = 64 * 1_048_576;
const totalMs = 60_000;
/** Longest pause that a host may ask for, s. */
const maxPauseSecs = 120;
const mostTries = 6;

/** Reads JSON of one origin. The key goes nowhere else: redirects and pages of other origins are refused. */
export class Fetching {
  readonly #base: URL;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #send: Send;

  constructor({ url, headers, insecureHttp }: FetchOptions) {
    this.#base = baseOf(url, insecureHttp === true);
    this.#headers = { accept: "application/json", "user-agent": `smctl/${version}`, ...headers };
    this.#send = requestsTo(this.#base);
  }

  /** The JSON at a path below the base, or at an absolute address of the same origin. Throws Failure. */
  async get(path: string): Promise<unknown> {
    const url = /^https?:/i.test(path) ? new URL(path) : new URL(`${this.#base.href.replace(/\/$/, "")}${path}`);
    if (url.origin !== this.#base.origin)
      throw new Failure(`${this.#base.origin} leads to ${url.origin}: the key is not sent there. Nothing was written.`);
    for (let tries = 1; ; tries++) {
      const { status, headers, text } = await this.#request(url);
      const where = `${url.origin}${url.pathname}`;
      if ((status === 429 || status >= 500) && tries < mostTries) {
        const pause = pauseOf(headers["retry-after"] ?? "", tries);
        if (pause <= maxPauseSecs) {
          await sleep(pause * 1000);
          continue;
        }
      }
      if (status === 401 || status === 403)
        throw new Failure(`${where} refuses the key (${status}). It must be able to read everything that is imported.`);
      if (status >= 300 && status < 400)
        throw new Failure(`${where} redirects (${status}): the key is not sent on. Use the address that it leads to.`);
      if (status !== 200) throw new Failure(`${where} answered ${status}. Nothing was written.`);
      try {
        return JSON.parse(text) as unknown;
      } catch {
        throw new Failure(`${where} answered with something that is no JSON. Is --api-url right?`);
      }
    }
  }

  async #request(url: URL): Promise<Reply> {
    try {
      return await this.#send({ method: "GET", url, headers: this.#headers, maxBytes, idleMs: totalMs, totalMs });
    } catch (error) {
      if (error instanceof ProxyError) throw new Failure(error.message);
      throw new Failure(`${url.origin} does not answer (${codeOrMessage(error)}).`);
    }
  }
}

/** Seconds, or a date; without either 1, 2, 4, ... */
function pauseOf(retryAfter: string, tries: number): number {
  if (/^\d{1,6}$/.test(retryAfter)) return Math.max(1, Number(retryAfter));
  const at = Date.parse(retryAfter);
  return Number.isNaN(at) ? 2 ** (tries - 1) : Math.max(1, Math.ceil((at - Date.now()) / 1000));
}

/** An http or https address that may get a key. Throws Failure. */
export function baseOf(text: string, isInsecure: boolean): URL {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !/^https?:$/.test(url.protocol)) throw new Failure(`${text} is no http or https address.`);
  if (url.username !== "" || url.password !== "") throw new Failure("credentials do not belong in the address.");
  url.search = "";
  url.hash = "";
  if (url.protocol === "http:" && !isLoopback(url.hostname) && !isInsecure)
    throw new Failure(
      `the key would be sent unencrypted to ${url.host}. Use https, or --insecure-http on a network that you trust.`,
    );
  return url;
}

/** A key of the environment. Throws Failure. */
export function keyOf(name: string): string {
  const key = process.env[name]?.trim() ?? "";
  if (key === "") throw new Failure(`set ${name} to an API key of the product. It is read from the environment only.`);
  if (!/^[\x21-\x7e]{1,1000}$/.test(key)) throw new Failure(`${name} is not a key: it is one word without spaces.`);
  return key;
}

export const reasonOf = (error: unknown): string => messageOf(error).slice(0, 200);
