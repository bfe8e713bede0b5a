import { readFileSync } from "node:fs";
import { rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import Type, { type Static } from "typebox";
import { Compile } from "typebox/compile";
import { parsedJson } from "@statusmesh/shared/json";
import { codeOf, messageOf } from "@statusmesh/shared/thrown";
import { type Log, Once } from "./log.ts";

const name = "status.json";
/** Interval of writing, ms. A file much older than this belongs to a stalled agent. */
const writeMs = 5000;

const Nullable = <S extends Type.TSchema>(schema: S) => Type.Union([schema, Type.Null()]);
const UnixMs = Type.Integer({ minimum: 0 });
const Contact = Type.Object({
  succeeded_at: Nullable(UnixMs),
  failure: Nullable(Type.Object({ at: UnixMs, message: Type.String() })),
});

/**
 * State of a running agent for `sm-agent status`. No secrets and no data of checks. Times are Unix ms on the control
 * plane's clock.
 */
const AgentStatus = Type.Object({
  format: Type.Literal(1),
  version: Type.String(),
  control_plane: Type.String(),
  region: Nullable(Type.String()),
  pid: Type.Number(),
  started_at: UnixMs,
  seen_at: UnixMs,
  stopped_at: Nullable(UnixMs),
  clock_offset_ms: Type.Number(),
  impaired_since: Nullable(UnixMs),
  assigned: Type.Number(),
  in_flight: Type.Number(),
  lag_p99_ms: Type.Number(),
  breakers_open: Type.Number(),
  /** Pings of jobs that wait; null where the agent takes none. */
  pings_waiting: Nullable(Type.Number()),
  spool: Type.Object({ waiting: Type.Number(), backlog: Type.Number(), dropped: Type.Number() }),
  pull: Contact,
  report: Contact,
});
export type AgentStatus = Static<typeof AgentStatus>;
const validStatus = Compile(AgentStatus);

/** Writes the state from `read` to the file in `folder`, until the returned function writes it a last time. */
export function keepStatus(folder: string, read: () => AgentStatus, log: Log): () => Promise<void> {
  const file = join(folder, name);
  const draft = `${file}.new`;
  const condition = new Once(log);
  let writing = Promise.resolve();
  const write = (): Promise<void> => {
    writing = writing.then(async () => {
      try {
        await rm(draft, { force: true });
        await writeFile(draft, `${JSON.stringify(read())}\n`, { mode: 0o600 });
        await rename(draft, file);
        condition.clear();
      } catch (error) {
        condition.say("warn", `sm-agent status shows an outdated state: ${messageOf(error)}`);
      }
    });
    return writing;
  };
  void write();
  const timer = setInterval(() => void write(), writeMs);
  return () => {
    clearInterval(timer);
    return write();
  };
}

/** The last state written in the folder; null for none or another format. Throws when it cannot be read. */
export function readStatus(folder: string): AgentStatus | null {
  let text: string;
  try {
    text = readFileSync(join(folder, name), "utf8");
  } catch (error) {
    if (codeOf(error) === "ENOENT") return null;
    throw error;
  }
  const status = parsedJson(text);
  return validStatus.Check(status) ? status : null;
}
