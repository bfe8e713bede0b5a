import Type, { type Static } from "typebox";
import { type CheckKind, timeout } from "./kind.ts";
import { Closed, described, nullable, Shape } from "../schema/shapes.ts";

/** A key of the agent's file of commands. */
export const commandPattern = "^[a-z0-9_-]{1,40}$";

export const ExecCheck = Shape("ExecCheck", "Runs a command of the agent's file, such as a Nagios plugin", {
  type: Type.Literal("exec"),
  command: Type.String({
    pattern: commandPattern,
    expects: "Use 1 to 40 small letters, digits, _ and -",
    description: "Key of a command in the agent's own file, which decides what it runs",
    examples: ["disk"],
    form: { hint: "A key of the agent's file of commands. The file decides what it runs." },
  }),
  timeout: timeout({ section: "Advanced command options", hint: "The command is killed after this time." }),
});
export type ExecCheck = Static<typeof ExecCheck>;

const NumberOrNull = (description: string, example: number | null) =>
  described(nullable(Type.Number()), description, example);
const Range = (description: string, example: string) =>
  described(nullable(Type.String({ maxLength: 60 })), description, example);

/** Performance data of one measurement, as the Monitoring Plugins write it. */
const Perfdata = Closed({
  label: Type.String({ minLength: 1, maxLength: 100, description: "What is measured", examples: ["/var"] }),
  value: NumberOrNull("Null where the command reported no value (U), or one beyond 2^53", 2643),
  uom: Type.String({ maxLength: 20, description: "Unit; empty for a number", examples: ["MB"] }),
  warn: Range("Range of a warning", "5948"),
  crit: Range("Range of a failure", "@10:20"),
  min: NumberOrNull("Smallest possible value", 0),
  max: NumberOrNull("Largest possible value", 5968),
});
export type Perfdata = Static<typeof Perfdata>;

/** Measurements of a run. */
export const maxPerfdata = 50;

export const ExecDetails = Shape("ExecDetails", "Performance data of an exec check", {
  perfdata: Type.Array(Perfdata, { maxItems: maxPerfdata, description: "What follows the last | of the first line" }),
});
export type ExecDetails = Static<typeof ExecDetails>;

export const exec: CheckKind<typeof ExecCheck, ExecDetails> = {
  type: "exec",
  label: "Command",
  purpose: "A Nagios plugin, your own script",
  icon: "screen",
  schema: ExecCheck,
  minIntervalSecs: 10,
  defaultIntervalSecs: 60,
  testIsAudited: true,
  rules: () => undefined,
  // The agent's file decides what is connected to.
  destination: () => null,
  mapSecrets: (spec) => spec,
  secretsGoTo: () => null,
  shell: { subject: "<command>", read: (subject) => ({ command: subject }) },
  summary: (spec) => `command ${spec.command}`,
  searchText: (spec) => spec.command,
  needs: (spec) => spec.command,
  lacks: ({ command }) => `the agent's file of commands has no [${command}]: add it, and send the agent SIGHUP`,
  causes: { exec_no_commands: "the agent has no file of commands: start it with --commands" },
  details: {
    schema: ExecDetails,
    inWords: ({ perfdata }) =>
      perfdata
        .slice(0, 5)
        .map(({ label, value, uom }) => `${label} ${value ?? "unknown"}${uom}`)
        .join(", "),
  },
};
