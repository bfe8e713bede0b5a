import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { exponentialMs, jitteredMs } from "@statusmesh/shared/backoff";
import { isRow, list, type Row, row, text } from "@statusmesh/shared/foreign/values";
import { parsedJson } from "@statusmesh/shared/json";
import { codeOrMessage } from "@statusmesh/shared/thrown";
import type { Remark } from "./found.ts";
import { foundOf, type Kept, keptOf, parentOf, type Resource, resources } from "./kube-objects.ts";
import type { Place } from "../http/docker-socket.ts";
import { ask, linesOf, textOf } from "../http/requests.ts";
import { type Reading, type Source, SourceError } from "./source.ts";

/*
 * Kubernetes by list and watch (kubernetes.io, API concepts): a watch continues from the resourceVersion of its list or
 * of the last event or bookmark; 410 Gone starts with a list again.
 */

/** Objects of one page of a list. */
const pageSize = 500;
const maxPageBytes = 32 * 1_048_576;
/** The server ends watches after this time; we continue. */
const watchSecs = 290;
const mostPages = 1000;

/** Where the API is, and how to sign in: files are read for each connection, because tokens are replaced. */
export interface Cluster {
  readonly url: URL;
  readonly caFile?: string;
  readonly tokenFile?: string;
  readonly ca?: Buffer;
  readonly cert?: Buffer;
  readonly key?: Buffer;
  readonly token?: string;
}

/** A list of which the version is known. */
interface Listed {
  version: string;
  readonly objects: Map<string, Kept>;
}

class Gone extends Error {}

class Status extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

export class Kubernetes implements Source {
  readonly project: string;
  readonly words: string;
  readonly #cluster: Cluster;
  readonly #namespaces: readonly string[];
  readonly #lists = new Map<string, Listed>();
  readonly #pauseMs: number;

  /** `namespaces` empty: all. `pauseMs` is the first wait before a watch is opened again. */
  constructor(cluster: Cluster, name: string, namespaces: readonly string[], pauseMs = 1000) {
    this.#cluster = cluster;
    this.#namespaces = namespaces;
    this.#pauseMs = pauseMs;
    this.project = `k8s-${name}`;
    this.words = `Kubernetes, cluster ${name}`;
  }

  /** What the lists have; each is read once and then followed. One that fails stays out, and nothing of it is gone. */
  async read(signal: AbortSignal): Promise<Reading> {
    const remarks: Remark[] = [];
    let failure: SourceError | null = null;
    let count = 0;
    for (const [path, resource] of this.#paths()) {
      try {
        if (!this.#lists.has(path)) this.#lists.set(path, await this.#list(path, resource, signal));
        count++;
      } catch (error) {
        if (signal.aborted) throw error;
        // A resource of a controller that is not installed.
        if (error instanceof Status && error.status === 404) continue;
        const reason = `cannot be listed (${codeOrMessage(error)})`;
        failure ??= new SourceError(`${this.words}: ${path} ${reason}`);
        remarks.push({ object: `${resource.kind} ${path}`, reason });
      }
    }
    if (count === 0) throw failure ?? new SourceError(`${this.words}: there is nothing to list`);
    const objects = [...this.#lists.values()].flatMap(({ objects: some }) => [...some.values()]);
    const parents = new Map(objects.filter(({ isParent }) => isParent).map((one) => [one.id, one.annotations]));
    const all = objects.flatMap((one) => foundOf(one, parentOf(one, parents)) ?? []);
    const seen = [...new Set(objects.flatMap(({ isParent, scope }) => (isParent ? [] : [scope])))];
    return { all, seen, remarks };
  }

  /** Follows every list that was read; ends when the signal aborts. */
  async watch(changed: () => void, signal: AbortSignal): Promise<void> {
    await Promise.all([...this.#paths()].map(([path, resource]) => this.#follow(path, resource, changed, signal)));
  }

  *#paths(): Generator<[string, Resource]> {
    for (const resource of resources) {
      const { group, plural, isNamespaced } = resource;
      if (!isNamespaced || this.#namespaces.length === 0) yield [`${group}/${plural}`, resource];
      else
        for (const name of this.#namespaces)
          yield [`${group}/namespaces/${encodeURIComponent(name)}/${plural}`, resource];
    }
  }

  async #list(path: string, resource: Resource, signal: AbortSignal): Promise<Listed> {
    const objects = new Map<string, Kept>();
    let next = "";
    for (let page = 0; page < mostPages; page++) {
      const reply = await this.#get(
        `${path}?limit=${pageSize}${next && `&continue=${encodeURIComponent(next)}`}`,
        signal,
      );
      const body = parsedJson(await textOf(reply, maxPageBytes));
      if (!isRow(body) || !Array.isArray(body["items"])) throw new Error("the reply is no list");
      for (const item of list(body["items"])) keep(objects, resource, row(item));
      const meta = row(body["metadata"]);
      next = text(meta["continue"]);
      if (next === "") return { version: text(meta["resourceVersion"]), objects };
    }
    throw new Error(`the list has more than ${mostPages * pageSize} objects`);
  }

  async #follow(path: string, resource: Resource, changed: () => void, signal: AbortSignal): Promise<void> {
    let failures = 0;
    while (!signal.aborted) {
      const listed = this.#lists.get(path);
      const since = performance.now();
      try {
        if (listed !== undefined) await this.#watchOnce(path, resource, listed, changed, signal);
      } catch (error) {
        if (signal.aborted) return;
        // The next cycle lists again.
        if (error instanceof Gone) {
          this.#lists.delete(path);
          changed();
        }
      }
      failures = performance.now() - since > 10_000 ? 0 : failures + 1;
      await sleep(jitteredMs(exponentialMs(failures, this.#pauseMs, 30_000)), undefined, { signal }).catch(
        () => undefined,
      );
    }
  }

  /** Applies events until the connection ends. Throws Gone where the version is too old. */
  async #watchOnce(
    path: string,
    resource: Resource,
    listed: Listed,
    changed: () => void,
    signal: AbortSignal,
  ): Promise<void> {
    const version = encodeURIComponent(listed.version);
    const query = `watch=1&allowWatchBookmarks=true&timeoutSeconds=${watchSecs}&resourceVersion=${version}`;
    const reply = await this.#get(`${path}?${query}`, signal, (watchSecs + 30) * 1000);
    for await (const line of linesOf(reply as AsyncIterable<Buffer>)) {
      const event = row(parsedJson(line));
      const object = row(event["object"]);
      const type = text(event["type"]);
      if (type === "ERROR") {
        if (object["code"] === 410) throw new Gone();
        throw new Error(text(object["message"]));
      }
      const latest = text(row(object["metadata"])["resourceVersion"]);
      if (latest !== "") listed.version = latest;
      if (type === "BOOKMARK") continue;
      const before = JSON.stringify(listed.objects.get(idOf(resource, object)) ?? null);
      if (type === "DELETED") listed.objects.delete(idOf(resource, object));
      else if (type === "ADDED" || type === "MODIFIED") keep(listed.objects, resource, object);
      // A status that changes every second declares nothing else.
      if (JSON.stringify(listed.objects.get(idOf(resource, object)) ?? null) !== before) changed();
    }
  }

  async #get(path: string, signal: AbortSignal, idleMs?: number) {
    const { place, token } = this.#signIn();
    const reply = await ask(place, {
      path,
      headers: { accept: "application/json", ...(token === null ? {} : { authorization: `Bearer ${token}` }) },
      signal,
      ...(idleMs === undefined ? {} : { idleMs }),
    });
    const { statusCode = 0 } = reply;
    if (statusCode === 200) return reply;
    const body = await textOf(reply, 65_536).catch(() => "");
    if (statusCode === 410) throw new Gone();
    throw new Status(statusCode, `status ${statusCode}: ${text(row(parsedJson(body))["message"]).slice(0, 200)}`);
  }

  #signIn(): { place: Place; token: string | null } {
    const { url, caFile, tokenFile, ca, cert, key, token = null } = this.#cluster;
    return {
      place: {
        url,
        ...(caFile === undefined ? (ca === undefined ? {} : { ca }) : { ca: readFileSync(caFile) }),
        ...(cert === undefined ? {} : { cert }),
        ...(key === undefined ? {} : { key }),
      },
      token: tokenFile === undefined ? token : readFileSync(tokenFile, "utf8").trim(),
    };
  }
}

const idOf = ({ kind }: Resource, object: Row): string => {
  const meta = row(object["metadata"]);
  return `${kind} ${text(meta["namespace"])}/${text(meta["name"])}`;
};

function keep(objects: Map<string, Kept>, resource: Resource, object: Row): void {
  objects.set(idOf(resource, object), keptOf(resource, idOf(resource, object), object));
}
