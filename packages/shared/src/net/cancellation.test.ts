import t from "tap";
import { abortSignalOf, Cancellation } from "./cancellation.ts";

t.test("an abort calls each listener once, in order, before it returns", async (t) => {
  const cancellation = new Cancellation();
  const called: string[] = [];
  const removed = (): void => void called.push("removed");
  cancellation.addEventListener("abort", () => called.push("first"));
  cancellation.addEventListener("abort", removed);
  cancellation.addEventListener("abort", () => called.push("second"));
  cancellation.removeEventListener("abort", removed);
  const reason = new Error("over");
  cancellation.abort(reason);
  cancellation.abort(new Error("again"));
  t.strictSame(called, ["first", "second"]);
  t.ok(cancellation.aborted);
  t.equal(cancellation.reason, reason);
});

t.test("an AbortSignal follows a cancellation, before and after its abort", async (t) => {
  const cancellation = new Cancellation();
  const before = abortSignalOf(cancellation);
  t.notOk(before.aborted);
  const reason = new Error("over");
  cancellation.abort(reason);
  for (const signal of [before, abortSignalOf(cancellation)]) {
    t.ok(signal.aborted);
    t.equal(signal.reason, reason);
  }
});
