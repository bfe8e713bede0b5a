/** The word of each state that a monitor, a region or a result has. The icon of the same name is in icons.ts. */
export const stateWords = {
  down: "Down",
  error: "Error",
  degraded: "Degraded",
  unknown: "No data",
  up: "Up",
  paused: "Paused",
} as const;

export type StateName = keyof typeof stateWords;
