/** Properties of the output stream. */
export interface Screen {
  /** True for a terminal. */
  tty: boolean;
  color: boolean;
  /** Columns. */
  width: number;
}

/** The screen of a stream. Colours depend on the terminal and NO_COLOR (no-color.org). */
export function screenOf(
  stream: { isTTY?: boolean; columns?: number },
  env: Readonly<Record<string, string | undefined>>,
): Screen {
  const tty = stream.isTTY === true;
  return {
    tty,
    color: tty && (env["NO_COLOR"] ?? "") === "" && env["TERM"] !== "dumb",
    width: Math.max(20, Math.min(stream.columns || 80, 100)),
  };
}

export type Tone = "good" | "warn" | "bad" | "quiet";

const codes: Record<Tone, number> = { good: 32, warn: 33, bad: 31, quiet: 2 };

export function paint(text: string, tone: Tone, { color }: Pick<Screen, "color">): string {
  return color ? `\u001b[${codes[tone]}m${text}\u001b[0m` : text;
}

/** Foreign text on one line, without terminal control sequences. */
export const tame = (text: string): string => text.replaceAll(/[\p{Cc}\p{Cf}\u2028\u2029]+/gu, " ");

/** Two aligned columns. */
export function table(rows: readonly (readonly [name: string, value: string])[]): string {
  const width = Math.max(...rows.map(([name]) => name.length));
  return rows.map(([name, value]) => `${name.padEnd(width)}  ${value}\n`).join("");
}

/** Rows of cells as aligned lines. */
export function inColumns(rows: readonly (readonly string[])[]): string[] {
  const widths = rows[0]!.map((_, at) => Math.max(...rows.map((row) => row[at]!.length)));
  return rows.map((row) =>
    row
      .map((cell, at) => cell.padEnd(widths[at]!))
      .join("  ")
      .trimEnd(),
  );
}
