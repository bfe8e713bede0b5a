import type { State } from "./format.ts";
import type { Ranges } from "./ranges.ts";
import type { Recovered } from "./recover.ts";
import type { Segment } from "./segment.ts";

/** What is known of every frame: which file it is in, whether it is over with, and whether somebody has it in his hands. */
export class Ledger {
  /** The files, in order. */
  segments: Segment[];
  /** Acknowledged, given up, or never a result. */
  readonly done: Ranges;
  /** Taken, and neither acknowledged nor given back. */
  readonly inFlight = new Set<number>();
  /** Results that were given up, ever. */
  dropped: number;
  /** True when something is over with that is not written down yet. */
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

  /** Forgets files, and all frames below `next` that are in none. */
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

  /** How many results of these frames are neither over with nor in somebody's hands. */
  openIn(from: number, to: number): number {
    let open = to - from - this.done.countIn(from, to);
    for (const seq of this.inFlight) if (seq >= from && seq < to && !this.done.has(seq)) open--;
    return open;
  }

  /** A result that is neither in a file nor in memory any more. */
  giveUp(seq: number): void {
    this.done.add(seq);
    this.dropped++;
    this.changed = true;
  }

  /** Gives up the results of these frames which nobody has taken, and says how many. Those that somebody has are his until he gives them back. */
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
