import type { AgentResult } from "@statusmesh/shared/protocol/agent-protocol";
import { type State, writeResult, writeState } from "./format.ts";
import { Queue } from "./queue.ts";
import type { Ranges } from "./ranges.ts";
import type { Writer } from "./writer.ts";

/** A frame that is not written yet. */
interface PendingFrame {
  seq: number;
  /** Null for a state frame. */
  result: AgentResult | null;
}

/** Frames that are appended and not yet written, in order. */
export class PendingFrames extends Queue<PendingFrame> {
  /** Number of the first frame; Infinity when there is none. */
  get firstSeq(): number {
    return this.first?.seq ?? Infinity;
  }

  /** Drops done frames at the front: a new segment may start at any number, and its header holds the state. */
  skipDone(done: Ranges): void {
    for (let first = this.first; first !== undefined && done.has(first.seq); first = this.first) {
      if (first.result === null && this.size === 1) return;
      this.take(1);
    }
  }

  /** Writes the frames below `end`. */
  async writeTo(writer: Writer, end: number, state: () => State): Promise<void> {
    for (let from = this.firstSeq; from < end; from = this.firstSeq) {
      const count = await writer.append(from, (n, into, at) => {
        const frame = this.at(n);
        if (frame === undefined || frame.seq !== from + n) return null;
        return frame.result === null ? writeState(into, at, state()) : writeResult(into, at, frame.result);
      });
      // The front may have been dropped meanwhile for lack of memory.
      const left = this.first?.seq ?? from + count;
      this.take(Math.max(0, Math.min(this.size, from + count - left)));
    }
  }
}
