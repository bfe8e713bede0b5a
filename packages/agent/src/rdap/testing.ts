import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Test } from "tap";

const dayMs = 86_400_000;
/** Where a FakeClock starts. */
export const startOfTime = 1_800_000_000_000;

/** An answer of RFC 9083 about a domain that runs `days` more from the start of time; null leaves the date out. */
export function rdapAnswer(
  domain: string,
  days: number | null,
  registrar: string | null = "Example Registrar",
): object {
  return {
    objectClassName: "domain",
    ldhName: domain.toUpperCase(),
    status: ["active"],
    events: [
      { eventAction: "registration", eventDate: "2001-01-01T00:00:00Z" },
      ...(days === null
        ? []
        : [{ eventAction: "expiration", eventDate: new Date(startOfTime + days * dayMs).toISOString() }]),
    ],
    entities:
      registrar === null
        ? []
        : [{ objectClassName: "entity", roles: ["registrar"], vcardArray: ["vcard", [["fn", {}, "text", registrar]]] }],
  };
}

export type Behaviour = (domain: string, response: ServerResponse, request: IncomingMessage) => void;

/** Answers every question with 90 days. */
export const good: Behaviour = (domain, response) => void response.end(JSON.stringify(rdapAnswer(domain, 90)));
/** Accepts the request and never responds. */
export const silent: Behaviour = () => undefined;

/** A registry on loopback, with the list that names it. */
export class Registry {
  behave: Behaviour = good;
  /** Response to a request of the list; null: the list itself. */
  behaveAsList: ((response: ServerResponse) => void) | null = null;
  tlds = ["org", "net", "uk"];
  /** The list, by top-level domains; null: {@link tlds} at this registry. */
  services: [string[], string[]][] | null = null;
  /** The queried domains, in order. */
  readonly asked: string[] = [];
  readonly requests: IncomingMessage[] = [];
  listFetches = 0;
  /** Questions open now, and the most that ever were, for each top-level domain. */
  readonly open = new Map<string, number>();
  readonly mostOpen = new Map<string, number>();
  origin = "";
  #waiting: { count: () => boolean; settle: () => void }[] = [];

  get listUrl(): string {
    return `${this.origin}/dns.json`;
  }

  /** Resolves when `reached` is true, looked at whenever a question begins or ends. */
  until(reached: () => boolean): Promise<void> {
    return new Promise((settle) => {
      this.#waiting.push({ count: reached, settle });
      this.#look();
    });
  }

  take(request: IncomingMessage, response: ServerResponse): void {
    const path = request.url ?? "";
    if (path === "/dns.json") {
      this.listFetches++;
      response.on("close", () => this.#look());
      if (this.behaveAsList !== null) this.behaveAsList(response);
      else
        response.end(
          JSON.stringify({
            version: "1.0",
            publication: "2026-01-01T00:00:00Z",
            services: this.services ?? [[this.tlds, [`${this.origin}/rdap`]]],
          }),
        );
      return this.#look();
    }
    const domain = decodeURIComponent(path.slice(path.lastIndexOf("/") + 1));
    const tld = domain.slice(domain.lastIndexOf(".") + 1);
    this.asked.push(domain);
    this.requests.push(request);
    const count = (this.open.get(tld) ?? 0) + 1;
    this.open.set(tld, count);
    this.mostOpen.set(tld, Math.max(this.mostOpen.get(tld) ?? 0, count));
    response.on("close", () => {
      this.open.set(tld, (this.open.get(tld) ?? 1) - 1);
      this.#look();
    });
    this.behave(domain, response, request);
    this.#look();
  }

  #look(): void {
    this.#waiting = this.#waiting.filter(({ count, settle }) => {
      if (!count()) return true;
      settle();
      return false;
    });
  }
}

export async function startRegistry(t: Test): Promise<Registry> {
  const registry = new Registry();
  const server = createServer((request, response) => registry.take(request, response));
  await new Promise<void>((settle, reject) => server.once("error", reject).listen(0, "127.0.0.1", settle));
  t.teardown(() => server.close().closeAllConnections());
  registry.origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return registry;
}
