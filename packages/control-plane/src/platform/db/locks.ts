/** Keys of advisory locks of sessions and transactions; each number has one meaning. */
export const lockKeys = {
  /** Held by the control plane that owns an embedded data folder. */
  dataFolder: 7_340_001,
  migrate: 7_340_002,
  makePartitions: 7_340_003,
  dropPartitions: 7_340_004,
  sealDay: 7_340_005,
} as const;
