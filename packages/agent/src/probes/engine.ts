import { codeOrMessage } from "@statusmesh/shared/thrown";
import type { Place } from "../http/docker-socket.ts";

/** Why the engine does not answer; null where it does. Any status is an answer: a proxy may refuse the path. */
export async function engineFault(place: Place, timeoutMs: number): Promise<string | null> {
  const { ask } = await import("../http/requests.ts");
  const where = place.socketPath ?? place.url.host;
  try {
    const reply = await ask(place, { path: "/_ping", idleMs: timeoutMs });
    reply.destroy();
    return null;
  } catch (error) {
    return `${where} does not answer (${codeOrMessage(error)})`;
  }
}
