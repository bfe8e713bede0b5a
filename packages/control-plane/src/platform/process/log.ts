import { pino } from "pino";

/**
 * The log of a process: JSON lines, or one line per entry for people. Callers pass named fields, never objects, to keep
 * secrets out.
 */
export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

const redacted = [
  "*.authorization",
  "*.cookie",
  "*.token",
  "*.secret",
  "*.password",
  "headers.authorization",
  "headers.cookie",
  "token",
  "secret",
  "password",
];

/** Opens the log; `pretty` is for terminals. */
export function openLog(level: string, format: "json" | "pretty"): Log {
  const options = {
    level,
    base: null,
    timestamp: () => `,"time":"${new Date().toISOString()}"`,
    formatters: { level: (label: string) => ({ level: label }) },
    redact: { paths: redacted, censor: "***" },
  };
  return format === "json"
    ? pino(options)
    : pino(options, { write: (line: string) => void process.stdout.write(pretty(line)) });
}

function pretty(line: string): string {
  const { level, time, msg, ...rest } = JSON.parse(line) as { level: string; time: string; msg?: string } & Record<
    string,
    unknown
  >;
  const fields = Object.entries(rest).map(
    ([key, value]) => `${key}=${typeof value === "string" ? value : JSON.stringify(value)}`,
  );
  const message = `${level === "info" ? "" : `${level}: `}${msg ?? ""}`;
  return `${time.slice(11, 19)} ${message}${fields.length > 0 ? `  ${fields.join(" ")}` : ""}\n`;
}

/** A log without output. */
export const silentLog: Log = { debug() {}, info() {}, warn() {}, error() {} };
