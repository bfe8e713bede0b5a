import t from "tap";
import { setImmediate as turn } from "node:timers/promises";
import { sharedReads } from "./shared-reads.ts";

/** A source whose reads end on command; each returns the `state` at its begin. */
function source() {
  const begun: { value: string; end: (error?: Error) => void }[] = [];
  const self = {
    state: "first",
    begun,
    read: () =>
      new Promise<string>(
        (settle, fail) =>
          void begun.push({
            value: self.state,
            end: (error) => (error === undefined ? settle(begun.at(-1)!.value) : fail(error)),
          }),
      ),
  };
  return self;
}

t.test("callers share a read that began after they asked", async (t) => {
  const it = source();
  const shared = sharedReads<string>();
  const early = shared("key", it.read);
  it.state = "revoked";
  const late = [shared("key", it.read), shared("key", it.read), shared("key", it.read)];
  t.equal(it.begun.length, 1, "one at a time");
  it.begun[0]!.end();
  t.equal(await early, "first");
  await turn();
  await turn();
  t.equal(it.begun.length, 2, "one read for all queued callers");
  it.state = "later";
  const latest = shared("key", it.read);
  it.begun[1]!.end();
  t.strictSame(
    await Promise.all(late),
    ["revoked", "revoked", "revoked"],
    "no caller gets a state from before its call",
  );
  await turn();
  await turn();
  it.begun[2]!.end();
  t.equal(await latest, "later");
});

t.test("keys do not wait for each other, and nothing is remembered", async (t) => {
  const it = source();
  const shared = sharedReads<string>();
  const [one, other] = [shared("one", it.read), shared("other", it.read)];
  t.equal(it.begun.length, 2);
  for (const { end } of it.begun) end();
  await Promise.all([one, other]);
  const again = shared("one", it.read);
  t.equal(it.begun.length, 3, "read at once, because none is running");
  it.begun[2]!.end();
  await again;
});

t.test("a failed read fails for its callers only", async (t) => {
  const it = source();
  const shared = sharedReads<string>();
  const first = shared("key", it.read);
  const second = shared("key", it.read);
  it.begun[0]!.end(new Error("away"));
  await t.rejects(first, { message: "away" });
  await turn();
  await turn();
  it.begun[1]!.end();
  t.equal(await second, "first");
});
