/** The wall clock, injected for tests. Unix milliseconds. */
export interface Clock {
  now(): number;
}
