import { paint, type Screen, type Tone } from "@statusmesh/shared/shell/terminal";
import type { Command } from "commander";

/** Exit codes of `sm-agent`, from `sysexits.h` where it has one. */
export const exits = {
  up: 0,
  down: 1,
  degraded: 2,
  /** Wrong usage, including a check that cannot run. */
  usage: 64,
  /** The control plane cannot be reached. */
  unavailable: 69,
  /** A restart helps. */
  again: 75,
  /** The control plane refuses the token. */
  refused: 77,
  /** The configuration is invalid. */
  config: 78,
} as const;

/** Ends the command with one line on standard error. */
export function fail(command: Command, exitCode: number, message: string): never {
  command.error(`sm-agent: ${message}`, { exitCode });
}

const signs: Record<Tone, string> = { good: "✔", warn: "▲", bad: "✖", quiet: "·" };

/** `✔ up`, in its colour. */
export const badge = (word: string, tone: Tone, screen: Screen): string =>
  paint(`${signs[tone]} ${word}`, tone, screen);

const three = (value: number): string =>
  value >= 100 ? String(Math.round(value)) : value >= 10 ? value.toFixed(1) : value.toFixed(2);

/** `4.20 ms`, `1.52 s`. */
export const milliseconds = (ms: number): string => (ms >= 1000 ? `${three(ms / 1000)} s` : `${three(ms)} ms`);

/** `12 B`, `5.12 kB`. */
export function bytes(count: number): string {
  for (const [unit, size] of [
    ["GB", 1e9],
    ["MB", 1e6],
    ["kB", 1e3],
  ] as const)
    if (count >= size) return `${three(count / size)} ${unit}`;
  return `${count} B`;
}

/** `12 s`, `5 min`, `3 h`, `2 days`: a duration in its largest unit. */
export function lasted(ms: number): string {
  const secs = Math.max(0, Math.round(ms / 1000));
  if (secs < 120) return `${secs} s`;
  if (secs < 7200) return `${Math.round(secs / 60)} min`;
  if (secs < 172_800) return `${Math.round(secs / 3600)} h`;
  return `${Math.round(secs / 86_400)} days`;
}

/**
 * Divides `width` cells in proportion to the amounts; every positive amount gets at least one, while there are enough.
 */
export function shares(amounts: readonly number[], width: number): number[] {
  const total = amounts.reduce((sum, amount) => sum + amount, 0);
  if (total <= 0) return amounts.map(() => 0);
  const cells = amounts.map((amount) => (amount > 0 ? Math.max(1, Math.floor((amount / total) * width)) : 0));
  for (let spare = width - cells.reduce((sum, count) => sum + count, 0); spare !== 0; spare -= Math.sign(spare)) {
    // Largest-remainder correction.
    const wants = amounts.map((amount, at) => ((amount / total) * width - cells[at]!) * Math.sign(spare));
    const able = wants.map((want, at) => (amounts[at]! > 0 && (spare > 0 || cells[at]! > 1) ? want : -Infinity));
    const best = able.indexOf(Math.max(...able));
    if (able[best] === -Infinity) break;
    cells[best]! += Math.sign(spare);
  }
  return cells;
}

const patterns = ["░", "▒", "▓", "█", "·"];
const tints = [36, 34, 35, 32, 2];

/** The phases of a run as one bar with their times below; without a terminal the times only. */
export function phaseBar(phases: readonly { name: string; ms: number }[], screen: Screen): string {
  if (phases.length === 0) return "";
  if (!screen.tty) return `  ${phases.map(({ name, ms }) => `${name} ${milliseconds(ms)}`).join(", ")}\n`;
  const tint = (text: string, at: number): string =>
    screen.color ? `\u001b[${tints[at % tints.length]}m${text}\u001b[0m` : text;
  const cells = shares(
    phases.map(({ ms }) => ms),
    screen.width - 4,
  );
  const bar = cells.map((count, at) => tint(patterns[at % patterns.length]!.repeat(count), at)).join("");
  const legend = phases
    .map(({ name, ms }, at) => `${tint(patterns[at % patterns.length]!, at)} ${name} ${milliseconds(ms)}`)
    .join("  ");
  return `  ${bar}\n  ${legend}\n`;
}

/** A time (Unix ms) in RFC 3339; null for none. */
export const iso = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString());
