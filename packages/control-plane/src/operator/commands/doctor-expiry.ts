import { dayMs } from "@statusmesh/shared/time";
import type { System } from "../../platform/context.ts";
import { endingClientCertificates } from "../../monitoring/certificates/service.ts";

/** State and detail of a line of the doctor. */
interface Found {
  readonly state: "ok" | "warning";
  readonly detail: string;
}

/** Days before the end of a client certificate from which it is a warning, as in the runs of its checks. */
const warningDays = 14;
/** Certificates that are named. */
const named = 5;

/** Client certificates of enabled checks that have ended or end soon: their servers will refuse the checks. */
export async function clientCertificates(system: Pick<System, "sql" | "clock">): Promise<Found> {
  const found = await endingClientCertificates(system, new Date(system.clock.now() + warningDays * dayMs));
  if (found.length === 0) return { state: "ok", detail: `none of a check ends within ${warningDays} days` };
  const words = found.slice(0, named).map(({ name, org, expires_at: end }) => {
    const verb = end.getTime() < system.clock.now() ? "ended" : "ends";
    return `${JSON.stringify(name)} of ${JSON.stringify(org)} ${verb} on ${end.toISOString().slice(0, 10)}`;
  });
  const more = found.length > named ? `, and ${found.length - named} more` : "";
  return { state: "warning", detail: `${words.join(", ")}${more}: replace them (PATCH /api/v1/certificates/{id})` };
}

/**
 * Age of the runtime's time zone data, which schedules and windows are read by. A version is a year and a letter, such
 * as 2025c, without a date: only one of the year before last is surely older than a year.
 */
export function timeZoneData(version: string | undefined, now: number): Found {
  const year = Number(/^20\d\d/.exec(version ?? "")?.[0] ?? Number.NaN);
  if (Number.isNaN(year)) return { state: "warning", detail: "the version of the time zone data is not known" };
  const words = `the time zone data are version ${version} (Node.js ${process.version})`;
  if (year >= new Date(now).getUTCFullYear() - 1) return { state: "ok", detail: words };
  return {
    state: "warning",
    detail:
      `${words}, more than a year old: where a country has changed its clocks since, schedules and maintenance ` +
      "windows are an hour off; update Node.js, or the tzdata and ICU packages that it uses",
  };
}
