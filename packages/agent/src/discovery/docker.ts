import { isRow, row, text } from "@statusmesh/shared/foreign/values";
import { codeOrMessage } from "@statusmesh/shared/thrown";
import { parsedJson } from "@statusmesh/shared/json";
import type { Found } from "./found.ts";
import type { Place } from "../http/docker-socket.ts";
import { ask, itemsOf, linesOf, textOf } from "../http/requests.ts";
import { argumentOf } from "./traefik.ts";
import { type Reading, type Source, SourceError } from "./source.ts";

/*
 * Docker, also podman, by its socket or a proxy of it: GET of containers, services and events only.
 */

/** Events after which the list is another one. */
const actions = new Set(["create", "start", "destroy", "remove", "rename", "update"]);

export class Docker implements Source {
  readonly project: string;
  readonly words: string;
  readonly #place: Place;
  readonly #name: string;

  constructor(place: Place, name: string) {
    this.#place = place;
    this.#name = name;
    this.project = `docker-${name}`;
    this.words = `Docker, host ${name}`;
  }

  /** All containers, stopped ones too, and the services of a swarm where there is one. */
  async read(signal: AbortSignal): Promise<Reading> {
    const all: Found[] = [];
    const seen: string[] = [];
    if ((await this.#list("containers", "/containers/json?all=1", signal, all, containerOf)) > 0)
      seen.push("containers");
    try {
      if ((await this.#list("services", "/services", signal, all, serviceOf)) > 0) seen.push("services");
    } catch (error) {
      // No swarm (503), podman (404), or a proxy that does not allow it (403).
      if (!(error instanceof SourceError)) throw error;
    }
    return { all, seen, remarks: [] };
  }

  /** Calls `changed` after events; ends with the connection. */
  async watch(changed: () => void, signal: AbortSignal): Promise<void> {
    const filters = encodeURIComponent(JSON.stringify({ type: ["container", "service"] }));
    // Events are rare: the connection is quiet for hours.
    const reply = await ask(this.#place, { path: `/events?filters=${filters}`, signal, idleMs: 0 });
    if (reply.statusCode !== 200) {
      reply.destroy();
      throw new SourceError(`${this.words}: events answered ${reply.statusCode}`);
    }
    for await (const line of linesOf(reply as AsyncIterable<Buffer>)) {
      const event = row(parsedJson(line));
      if (actions.has(text(event["Action"] ?? event["status"]))) changed();
    }
  }

  async #list(
    what: string,
    path: string,
    signal: AbortSignal,
    all: Found[],
    foundOf: (value: Record<string, unknown>, host: string) => Found | null,
  ): Promise<number> {
    let count = 0;
    try {
      const reply = await ask(this.#place, { path, signal });
      if (reply.statusCode !== 200)
        throw new Error(`status ${reply.statusCode}: ${(await textOf(reply, 65_536)).trim().slice(0, 200)}`);
      for await (const item of itemsOf(reply as AsyncIterable<Buffer>)) {
        count++;
        const found = isRow(item) ? foundOf(item, this.#name) : null;
        if (found !== null) all.push(found);
      }
    } catch (error) {
      throw new SourceError(`${this.words}: ${what} cannot be read (${codeOrMessage(error)})`);
    }
    return count;
  }
}

/** Labels that no dialect reads, which every container of compose has a dozen of. */
const isUnread = /^(?:com\.docker|org\.opencontainers)\./;

/** Kept as JSON, which takes less memory than maps of labels. */
class Labelled implements Found {
  readonly name: string;
  readonly scope: "containers" | "services";
  readonly created: string;
  readonly #labels: string;
  readonly #texts: string;

  constructor(of: Pick<Found, "name" | "created" | "labels" | "texts"> & { scope: "containers" | "services" }) {
    this.name = of.name;
    this.scope = of.scope;
    this.created = of.created;
    this.#labels = JSON.stringify(of.labels);
    this.#texts = JSON.stringify(of.texts);
  }

  get id(): string {
    return this.name;
  }

  get words(): string {
    return `${this.scope.slice(0, -1)} ${this.name}`;
  }

  get labels(): Found["labels"] {
    return Object.assign(Object.create(null) as Record<string, string>, JSON.parse(this.#labels));
  }

  get texts(): Found["texts"] {
    return JSON.parse(this.#texts) as Found["texts"];
  }

  get url(): string | null {
    return exposedHost(this.labels);
  }
}

function containerOf(item: Record<string, unknown>): Found | null {
  const name = text((item["Names"] as unknown[] | undefined)?.[0]).replace(/^\//, "");
  const labels = labelsOf(item["Labels"]);
  if (name === "" || Object.keys(labels).length === 0) return null;
  const created = text(item["Created"]).padStart(12, "0");
  const texts = {
    container_name: name,
    container_id: text(item["Id"]),
    image: text(item["Image"]),
    image_id: text(item["ImageID"]),
  };
  return new Labelled({ name, scope: "containers", labels, created, texts });
}

function serviceOf(item: Record<string, unknown>): Found | null {
  const spec = row(item["Spec"]);
  const name = text(spec["Name"]);
  const labels = labelsOf(spec["Labels"]);
  if (name === "" || Object.keys(labels).length === 0) return null;
  return new Labelled({ name, scope: "services", labels, created: text(item["CreatedAt"]), texts: {} });
}

function labelsOf(value: unknown): Record<string, string> {
  const labels = Object.create(null) as Record<string, string>;
  for (const [name, one] of Object.entries(row(value)))
    if (typeof one === "string" && !isUnread.test(name)) labels[name] = one;
  return labels;
}

/** The host of the first router of Traefik; null without one. */
function exposedHost(labels: Readonly<Record<string, string>>): string | null {
  for (const [name, rule] of Object.entries(labels)) {
    const [, router] = /^traefik\.http\.routers\.([^.]+)\.rule$/.exec(name) ?? [];
    const host = argumentOf(rule, "Host");
    if (router === undefined || host === null) continue;
    const hasTls = Object.keys(labels).some((one) => one.startsWith(`traefik.http.routers.${router}.tls`));
    return `${hasTls ? "https" : "http"}://${host}`;
  }
  return null;
}
