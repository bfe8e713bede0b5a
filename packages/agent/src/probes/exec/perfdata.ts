import { maxPerfdata, type Perfdata } from "@statusmesh/shared/checks/exec";

/** The text of a line, and what follows its last `|`. */
export function splitLine(line: string): { text: string; perfdata: Perfdata[] } {
  const at = line.lastIndexOf("|");
  if (at < 0) return { text: line.trim(), perfdata: [] };
  return { text: line.slice(0, at).trim(), perfdata: perfdataIn(line.slice(at + 1)) };
}

/**
 * Performance data: `'label'=value[unit];[warn];[crit];[min];[max]`, separated by spaces; `''` is a quote within a
 * label (Monitoring Plugins Development Guidelines, "Performance data"). What does not fit is left out.
 */
function perfdataIn(text: string): Perfdata[] {
  const found: Perfdata[] = [];
  for (const [token] of text.replaceAll(unshown, "\ufffd").matchAll(/(?:'(?:[^']|'')*'|[^\s'])+/g)) {
    const [, quoted, plain, rest] = /^(?:'((?:[^']|'')*)'|([^=']+))=(.*)$/.exec(token) ?? [];
    const label = quoted?.replaceAll("''", "'") ?? plain;
    if (label === undefined || rest === undefined || label === "" || label.length > 100) continue;
    const [measured = "", warn, crit, min, max] = rest.split(";");
    const [, number = "", uom = ""] = /^(U|[-+]?[\d.]+(?:e[-+]?\d+)?)([^\d\s]{0,20})$/i.exec(measured) ?? [];
    if (number === "") continue;
    const value = numberOrNull(number);
    if (value === null && number.toUpperCase() !== "U" && !Number.isFinite(Number(number))) continue;
    found.push({
      label,
      value,
      uom,
      warn: rangeOf(warn),
      crit: rangeOf(crit),
      min: numberOrNull(min),
      max: numberOrNull(max),
    });
    if (found.length === maxPerfdata) break;
  }
  return found;
}

/** Control characters but tabs, and what turns the direction of text: terminals and lists would show something else. */
const unshown = /[^\P{Cc}\t]|[\p{Zl}\p{Zp}\p{Cs}\u202a-\u202e\u2066-\u2069]/gu;

const rangeOf = (text = ""): string | null => (text === "" || text.length > 60 ? null : text);

/** Null beyond 2^53 too, where a number is not exact: counters of 64 bits reach that. */
function numberOrNull(text = ""): number | null {
  const value = text === "" ? NaN : Number(text);
  return Math.abs(value) <= Number.MAX_SAFE_INTEGER ? value : null;
}
