/** Keys of advisory locks of sessions and transactions; each number has one meaning. */
export const lockKeys = {
  /** Held by the control plane that owns an embedded data folder. */
  dataFolder: 7_340_001,
  migrate: 7_340_002,
  makePartitions: 7_340_003,
  dropPartitions: 7_340_004,
  sealDay: 7_340_005,
} as const;

/** First halves of two-part advisory locks, which do not meet the keys above; the second half is a hash or a number. */
export const lockSpaces = {
  /** A run of a job, by its name. */
  jobs: 7_341,
  /** On-demand slots of a target are chosen. */
  issuing: 7_342,
  /** Dependencies of an organisation change. */
  dependencies: 7_343,
  /** Snoozes of an organisation are counted and added. */
  snoozes: 7_344,
  /** A browser is registered for web push, by its endpoint. */
  devices: 7_346,
} as const;
