import { errorInWords } from "@statusmesh/shared/checks";
import type { Cause } from "../db/causes.ts";
import { list, number } from "./format.ts";

/**
 * Common cause of failing monitors, at the start of a sentence: `db-1.example.org`, `Tag payments`, `Region default`.
 */
export const causeName = ({ kind, value }: Cause): string =>
  kind === "host" ? value : `${kind === "tag" ? "Tag" : "Region"} ${value}`;

/** The error of a line, for people: `connection refused`, `mostly connection refused`; null without one. */
export const causeError = ({ error, sameError }: { error: string | null; sameError: boolean }): string | null =>
  error === null ? null : `${sameError ? "" : "mostly "}${errorInWords(error).replace(/\.$/, "")}`;

/** `API, Shop, Login and 877 more`, from the first names and the number of all. */
export const namesOf = (names: readonly string[], total: number): string =>
  list(total > names.length ? [...names, `${number(total - names.length)} more`] : names);
