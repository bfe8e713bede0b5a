/** One file of the spool: frames `base` up to but not including `end`. */
export interface Segment {
  readonly name: string;
  readonly region: string;
  readonly base: number;
  end: number;
  /** Offset of the first frame, and end of the last valid frame. */
  readonly start: number;
  size: number;
}
