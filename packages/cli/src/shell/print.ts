import { Option } from "commander";
import { type Screen, screenOf, tame } from "@statusmesh/shared/terminal";

/** The standard output as it is shown. */
export const screen = (): Screen => screenOf(process.stdout, process.env);

export const jsonOption = (): Option => new Option("--json", "print JSON");

export const printJson = (value: unknown): void => print(`${JSON.stringify(value, null, 2)}\n`);

export const print = (text: string): void => void process.stdout.write(text);

/** A line for people on standard error, where it is not in the way of output. */
export const tell = (text: string): void => void process.stderr.write(`${text}\n`);

/** Aligned columns under a head; foreign text is made harmless. */
export function columns(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const all = [head.map((name) => name.toUpperCase()), ...rows.map((row) => row.map(tame))];
  const widths = head.map((_, at) => Math.max(...all.map((row) => (row[at] ?? "").length)));
  return all
    .map(
      (row) =>
        `${row
          .map((text, at) => text.padEnd(widths[at]!))
          .join("  ")
          .trimEnd()}\n`,
    )
    .join("");
}

/** `1 file`, `2 files`. */
export const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`;
