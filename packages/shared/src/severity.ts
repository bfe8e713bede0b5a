/** Severities of an incident, lightest first: minor means degraded, not down. */
export const severities = ["minor", "major", "critical"] as const;
export type Severity = (typeof severities)[number];

/** The highest of the severities; null stands for none. `minor` where there is none. */
export const highest = (...given: readonly (Severity | null | undefined)[]): Severity =>
  severities.findLast((severity) => given.includes(severity)) ?? "minor";

/** True where a notice of `severity` does not pass a gate. */
export const isBelow = (severity: Severity, gate: Severity): boolean =>
  severities.indexOf(severity) < severities.indexOf(gate);
