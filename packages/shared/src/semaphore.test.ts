import t from "tap";
import { Semaphore } from "./semaphore.ts";

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

t.test("calls run in order within the limits; one that fails gives its place on; the rest is refused", async (t) => {
  const limit = new Semaphore(2, { maxWaiting: 2, onFull: () => new Error("busy") });
  const order: number[] = [];
  const ends: ((error?: Error) => void)[] = [];
  const work = (at: number) =>
    limit.run(
      "a",
      () =>
        new Promise<number>((resolve, reject) => {
          order.push(at);
          ends[at] = (error) => (error === undefined ? resolve(at) : reject(error));
        }),
    );
  const all = [0, 1, 2, 3].map((at) => work(at).catch((error: Error) => error.message));
  await t.rejects(work(4), { message: "busy" });
  t.strictSame([order, limit.waiting("a"), limit.waiting("b")], [[0, 1], 2, 0]);
  ends[1]!(new Error("failed"));
  await turn();
  all.push(work(5));
  ends[0]!();
  await turn();
  ends[2]!();
  ends[3]!();
  await turn();
  ends[5]!();
  t.strictSame(await Promise.all(all), [0, "failed", 2, 3, 5]);
  t.strictSame(order, [0, 1, 2, 3, 5]);
  t.equal(limit.waiting("a"), 0);
});

t.test("keys do not wait for each other; an aborted call leaves its place in the queue", async (t) => {
  const limit = new Semaphore(1);
  const leave = await limit.enter("a");
  (await limit.enter("b"))();
  const gone = new AbortController();
  const aborted = limit.enter("a", gone.signal);
  const next = limit.enter("a", new AbortController().signal);
  gone.abort(new Error("gone"));
  await t.rejects(aborted, { message: "gone" });
  await t.rejects(limit.enter("a", gone.signal), { message: "gone" });
  leave();
  (await next)();
  (await limit.enter("a"))();
});

t.test("a raised limit admits those that wait, first come first served", async (t) => {
  const limit = new Semaphore(1);
  const leave = await limit.enter();
  const order: string[] = [];
  const first = limit.enter().then((leave) => (order.push("first"), leave));
  limit.max = 3;
  const second = limit.enter().then((leave) => (order.push("second"), leave));
  for (const release of [leave, await first, await second]) release();
  t.strictSame(order, ["first", "second"]);
});
