import { paint, tame, type Tone } from "@statusmesh/shared/terminal";
import type { Json } from "../shell/api.ts";
import { print, screen } from "../shell/print.ts";

const tones: Readonly<Record<string, Tone>> = { up: "good", degraded: "warn", down: "bad", error: "bad" };

/** Prints what a run found as one line. */
export function printRun(name: string, result: Json): void {
  const {
    status,
    error,
    total_ms: ms,
    region,
  } = result as {
    status: string;
    error: string | null;
    total_ms: number | null;
    region: string | null;
  };
  const words = [
    ms == null ? null : `${Math.round(ms)} ms`,
    region == null ? null : `from ${region}`,
    error == null || error === "" ? null : tame(error),
  ].filter((word) => word !== null);
  print(
    `${paint(status, tones[status] ?? "quiet", screen())}  ${tame(name)}  ${words.join(", ")}`.trimEnd().concat("\n"),
  );
}
