import { errorInWords } from "@statusmesh/shared/checks";
import { diagnosisClass } from "@statusmesh/shared/protocol/diagnosis";
import type { Cause } from "./queries.ts";
import { capital, list, number, plural } from "../../platform/html/format.ts";

/**
 * Common cause of failing monitors, at the start of a sentence: `db-1.example.org`, `Tag payments`, `Region default`,
 * `Connection refused`.
 */
export const causeName = ({ kind, value }: Cause): string =>
  kind === "host"
    ? value
    : kind === "error"
      ? capital(diagnosisClass(value) ?? errorInWords(value))
      : `${kind === "tag" ? "Tag" : "Region"} ${value}`;

/** The same line with a region by name. */
export const withRegionName = <L extends { cause: Cause }>(line: L, nameOf: (id: string) => string): L =>
  line.cause.kind === "region" ? { ...line, cause: { ...line.cause, value: nameOf(line.cause.value) } } : line;

/**
 * A cause in one line: `db-1.example.org: connection refused`, `Name not found for most of tag payments`,
 * `Connection refused`.
 */
export function causeTitle(line: { cause: Cause; error: string | null; sameError: boolean }): string {
  const { kind, value } = line.cause;
  const error = commonError(line);
  if (kind === "error" || error === null) return causeName(line.cause);
  return kind === "tag" ? `${capital(error)} for most of tag ${value}` : `${causeName(line.cause)}: ${error}`;
}

/** `120 incidents`, `44 of 67 monitors failing`: how much of a cause fails. `total` is null where it is not known. */
export const shareOf = ({ count, total }: { count: number; total: number | null }, noun: string): string =>
  total === null ? plural(count, noun) : `${number(count)} of ${plural(total, "monitor")} failing`;

/** The error of a line, for people: `connection refused`, `mostly connection refused`; null without one. */
export const commonError = ({ error, sameError }: { error: string | null; sameError: boolean }): string | null =>
  error === null ? null : `${sameError ? "" : "mostly "}${errorInWords(error).replace(/\.$/, "")}`;

/** `API, Shop, Login and 877 more`, from the first names and the number of all. */
export const namesOf = (names: readonly string[], total: number): string =>
  list(total > names.length ? [...names, `${number(total - names.length)} more`] : names);
