import t from "tap";
import { oncePer } from "./caches.ts";

t.test("once a period for each key, and only keys of the last period are kept", async (t) => {
  const seen = new Map<string, number>();
  const isDue = oncePer(1000, seen);
  t.same(
    [isDue("a", 0), isDue("a", 999), isDue("b", 999), isDue("a", 1000), isDue("b", 1998)],
    [true, false, true, true, false],
  );
  for (let n = 0; n < 10_000; n++) isDue(`agent ${n}`, 2000 + n);
  t.equal(seen.size, 1000);
});
