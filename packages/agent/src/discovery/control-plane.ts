import { asObject, isObject, type Json, parsedJson } from "@statusmesh/shared/json";
import { codeOrMessage } from "@statusmesh/shared/thrown";
import type { Place } from "../http/docker-socket.ts";
import { ask, textOf } from "../http/requests.ts";
import { version } from "../version.ts";

const maxReplyBytes = 40 * 1_048_576;

/** A fault of a document, at a pointer into the request. */
interface Fault {
  readonly field: string | null;
  readonly code: string;
  readonly message: string;
}

export class ApiRefusal extends Error {
  override readonly name = "ApiRefusal";
  readonly code: string;
  readonly faults: readonly Fault[];

  constructor(code: string, message: string, faults: readonly Fault[]) {
    super(message);
    this.code = code;
    this.faults = faults;
  }
}

/** The JSON API by a token that may write monitors. */
export class ControlPlane {
  readonly #place: Place;
  readonly #token: () => string;

  constructor(url: string, token: () => string) {
    this.#place = { url: new URL(url) };
    this.#token = token;
  }

  /**
   * `body` may be JSON already. Resolves to the body of the reply. Throws {@link ApiRefusal}, or an Error where it does
   * not answer.
   */
  async post(path: string, body: Json | string, signal: AbortSignal): Promise<Json> {
    const { host } = this.#place.url;
    let status: number;
    let text: string;
    try {
      const reply = await ask(this.#place, {
        method: "POST",
        path,
        headers: {
          authorization: `Bearer ${this.#token()}`,
          "content-type": "application/json",
          "user-agent": `sm-agent/${version}`,
        },
        body: typeof body === "string" ? body : JSON.stringify(body),
        signal,
        idleMs: 120_000,
      });
      status = reply.statusCode ?? 0;
      text = await textOf(reply, maxReplyBytes);
    } catch (error) {
      throw new Error(`the control plane ${host} does not answer (${codeOrMessage(error)})`, { cause: error });
    }
    const value = parsedJson(text);
    if (status >= 200 && status < 300) return asObject(value);
    const error = asObject(asObject(value)["error"]);
    if (typeof error["code"] !== "string") throw new Error(`the control plane ${host} answered with status ${status}`);
    const { code, message, field } = error as unknown as Fault;
    const listed = asObject(error["details"])["errors"];
    const faults = Array.isArray(listed) ? listed.filter(isObject).map((one) => one as unknown as Fault) : [];
    throw new ApiRefusal(code, message, faults.length > 0 ? faults : [{ field: field ?? null, code, message }]);
  }
}
