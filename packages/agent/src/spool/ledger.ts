import type { State, Segment } from "./format.ts";
import type { Ranges } from "./ranges.ts";
import type { Recovered } from "./recover.ts";

/** Tracks every frame: its file, whether it is done, and whether it is in flight. */
export class Ledger {
  /** The files, in order. */
  segments: Segment[];
  /** Acknowledged, given up, or not a result. */
  readonly done: Ranges;
  /** Taken, and neither acknowledged nor released. */
  readonly inFlight = new Set<number>();
  /** Results ever given up. */
  dropped: number;
  /** True when a done frame is not yet recorded on disk. */
  changed: boolean;

  constructor({ segments, done, dropped, lost }: Recovered) {
    this.segments = segments;
    this.done = done;
    this.dropped = dropped;
    this.changed = lost;
  }

  get state(): State {
    return { done: this.done.runs(), dropped: this.dropped };
  }

  opened(segment: Segment): void {
    this.segments = [...this.segments.filter(({ name }) => name !== segment.name), segment];
  }

  /** Removes files, and all frames below `next` that are in no file. */
  removed(gone: readonly Segment[], next: number): void {
    this.segments = this.segments.filter((segment) => !gone.includes(segment));
    this.done.cut(this.segments[0]?.base ?? next);
  }

  segmentOf(seq: number): Segment | undefined {
    return this.segments.find(({ base, end }) => base <= seq && seq < end);
  }

  isOver({ base, end }: Segment): boolean {
    return this.done.countIn(base, end) === end - base;
  }

  /** Counts the results of these frames that are neither done nor in flight. */
  openIn(from: number, to: number): number {
    let open = to - from - this.done.countIn(from, to);
    for (const seq of this.inFlight) if (seq >= from && seq < to && !this.done.has(seq)) open--;
    return open;
  }

  /** Marks a result that is neither in a file nor in memory. */
  giveUp(seq: number): void {
    this.done.add(seq);
    this.dropped++;
    this.changed = true;
  }

  /** Gives up the results of these frames that are not in flight, and returns their number. */
  lose(from: number, to: number): number {
    const count = this.openIn(from, to);
    if (count === 0) return 0;
    const held = [...this.inFlight].filter((seq) => seq >= from && seq < to).sort((a, b) => a - b);
    let at = from;
    for (const seq of [...held, to]) {
      this.done.add(at, seq);
      at = seq + 1;
    }
    this.dropped += count;
    this.changed = true;
    return count;
  }
}
