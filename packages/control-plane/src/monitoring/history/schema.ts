/** Runs of a target in one UTC day, as another product counted them. */
export interface ImportedDay {
  target_id: string;
  /** `2026-11-20` */
  day: string;
  up: number;
  degraded: number;
  down: number;
  error: number;
  avg_ms: number | null;
}
