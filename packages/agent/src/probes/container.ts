import type { ContainerCheck, ContainerDetails } from "@statusmesh/shared/checks/container";
import { parsedJson } from "@statusmesh/shared/json";
import { abortSignalOf } from "@statusmesh/shared/net/cancellation";
import { list, number, type Row, row, rows, text } from "@statusmesh/shared/foreign/values";
import { codeOrMessage } from "@statusmesh/shared/thrown";
import type { Place } from "../http/docker-socket.ts";
import { clean } from "../run/verdicts.ts";
import type { Probe, Verdict } from "./probe.ts";

/** Containers with a label that are judged. */
const mostMatches = 50;
const maxBytes = 4 * 1_048_576;

/** State and health of containers by GET requests to the engine (Docker Engine API, ContainerInspect). */
export const container: Probe<ContainerCheck> = {
  timeoutStatus: "error",
  async run(spec, { docker, signal, trace }) {
    if (docker === null) return noEvidence("the agent has no socket of Docker: start it with --docker");
    const where = docker.socketPath ?? docker.url.host;
    // Silence of the engine says nothing about a container.
    trace.verdict = noEvidence(`Docker at ${where} did not answer within ${(spec.timeout / 1000).toFixed(1)} s`);
    const engine = new Engine(docker, abortSignalOf(signal));
    try {
      return spec.name === null ? await judgeLabel(engine, spec.label!) : await judgeName(engine, spec.name);
    } catch (error) {
      if (signal.aborted) throw error;
      return noEvidence(`Docker at ${where} cannot be read (${codeOrMessage(error)})`);
    }
  },
};

const noEvidence = (error: string): Verdict => ({ status: "error", error, skip: true });

class Engine {
  readonly #place: Place;
  readonly #signal: AbortSignal;

  constructor(place: Place, signal: AbortSignal) {
    this.#place = place;
    this.#signal = signal;
  }

  /** The body of a reply; null for 404. Throws for any other status. */
  async get(path: string): Promise<unknown> {
    // Loaded here: agents without a socket need none of it.
    const { ask, textOf } = await import("../http/requests.ts");
    const reply = await ask(this.#place, { path, signal: this.#signal, idleMs: 0 });
    const body = parsedJson(await textOf(reply, maxBytes));
    if (reply.statusCode === 200) return body;
    if (reply.statusCode === 404) return null;
    const message = clean(text(row(body)["message"]), 200);
    throw new Error(`GET ${path.split("?")[0]}: status ${reply.statusCode}${message === "" ? "" : `, ${message}`}`);
  }

  /** A container by its name or id; null where there is none. */
  async inspect(name: string): Promise<Row | null> {
    const found = await this.get(`/containers/${encodeURIComponent(name)}/json`);
    return found === null ? null : row(found);
  }
}

async function judgeName(engine: Engine, name: string): Promise<Verdict> {
  const found = await engine.inspect(name);
  // The engine also takes the beginning of an id: one of less than 12 digits is a name that nothing has.
  const isMeant =
    found !== null && (nameOf(found) === name || (name.length >= 12 && text(found["Id"]).startsWith(name)));
  return isMeant ? judge(found) : { status: "down", error: `there is no container ${name}` };
}

async function judgeLabel(engine: Engine, label: string): Promise<Verdict> {
  const filters = encodeURIComponent(JSON.stringify({ label: [label] }));
  const matches = rows(await engine.get(`/containers/json?all=1&filters=${filters}`));
  if (matches.length > mostMatches)
    return noEvidence(`${matches.length} containers have the label ${label}: at most ${mostMatches} are judged`);
  let worst: Verdict | null = null;
  for (const match of matches) {
    const found = await engine.inspect(text(match["Id"]));
    const verdict = found === null ? null : judge(found);
    if (verdict !== null && (worst === null || rank(verdict) > rank(worst))) worst = verdict;
  }
  return worst ?? { status: "down", error: `no container has the label ${label}` };
}

const rank = ({ status, skip }: Verdict): number => (skip === true ? 1 : status === "up" ? 0 : 2);

const nameOf = (found: Row): string => text(found["Name"]).replace(/^\//, "");

/** The verdict on a container, as ContainerInspect describes it. */
function judge(found: Row): Verdict {
  const name = clean(nameOf(found), 255);
  const state = row(found["State"]);
  const status = clean(text(state["Status"]), 40);
  const health = text(row(state["Health"])["Status"]);
  const details: ContainerDetails = {
    container: name,
    state: status,
    health: health === "" || health === "none" ? null : clean(health, 40),
  };
  const code = number(state["ExitCode"], 0);
  const ended = state["OOMKilled"] === true ? "it was out of memory" : `exit code ${code}`;
  const reasons: Readonly<Record<string, string>> = {
    paused: "is paused",
    created: "was created and has not been started",
    restarting: `is restarting (${ended})`,
    exited: `has exited (${ended})`,
    stopped: `has exited (${ended})`,
    stopping: "is stopping",
    removing: "is being removed",
    dead: "is dead: Docker could not remove it",
  };
  const down = (reason: string): Verdict => ({ status: "down", error: `${name} ${reason}`, details });
  if (Object.hasOwn(reasons, status)) return down(reasons[status]!);
  if (status !== "running") return { ...noEvidence(`${name} has the unknown state ${status}`), details };
  if (health === "starting")
    return { ...noEvidence(`${name} is starting: its health check has not passed yet`), details };
  return health === "unhealthy" ? down(`is unhealthy${outputOf(state)}`) : { status: "up", error: null, details };
}

/** The last line of its health check, after a colon; empty without one. */
function outputOf(state: Row): string {
  const [last] = list(row(state["Health"])["Log"]).slice(-1);
  const output = clean(text(row(last)["Output"]).trim().split("\n", 1)[0]!, 200);
  return output === "" ? "" : `: ${output}`;
}
