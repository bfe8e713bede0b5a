import t from "tap";
import { afterAttempt, backoffMs, maxAttempts, type Outcome, pauseOf } from "./retry.ts";

t.test("time of the next attempt: the table", async (t) => {
  const now = 1_000_000;
  const failed = (changes: Partial<Outcome & { ok: false }> = {}): Outcome => ({
    ok: false,
    error: "x",
    status: 500,
    permanent: false,
    retryAfterSecs: null,
    ...changes,
  });
  const dead = { state: "dead", nextAttemptAt: null };
  const after = (secs: number) => ({ state: "pending", nextAttemptAt: now + secs * 1000 });
  const cases: [string, Outcome, number, object][] = [
    ["accepted", { ok: true, status: 200 }, 1, { state: "delivered", nextAttemptAt: null }],
    [
      "accepted at the last attempt",
      { ok: true, status: 200 },
      maxAttempts,
      { state: "delivered", nextAttemptAt: null },
    ],
    ["first failure", failed(), 1, after(30)],
    ["second", failed(), 2, after(60)],
    ["third", failed(), 3, after(120)],
    ["seventh", failed(), 7, after(1920)],
    ["eighth", failed(), 8, dead],
    ["final refusal", failed({ permanent: true, status: 410 }), 1, dead],
    ["final refusal that names a time", failed({ permanent: true, retryAfterSecs: 5 }), 1, dead],
    ["Retry-After below the backoff", failed({ retryAfterSecs: 7 }), 1, after(7)],
    ["Retry-After above it", failed({ retryAfterSecs: 300 }), 1, after(300)],
    ["Retry-After now", failed({ retryAfterSecs: 0 }), 1, after(1)],
    ["Retry-After next year", failed({ retryAfterSecs: 31_536_000 }), 1, after(86_400)],
    ["a short Retry-After for the fourth time", failed({ retryAfterSecs: 1 }), 4, after(240)],
    ["Retry-After does not add attempts", failed({ retryAfterSecs: 1 }), 8, dead],
  ];
  for (const [what, outcome, attempt, verdict] of cases)
    t.strictSame(afterAttempt(outcome, attempt, now, 0), verdict, what);
  t.equal(backoffMs(1, 1), 36_000, "up to a fifth longer");
  t.equal(backoffMs(8, 1), 3_600_000, "never above an hour");
});

t.test("a whole channel pauses for 429 and 503 with Retry-After, for 5 minutes at most", async (t) => {
  const failed = (status: number, retryAfterSecs: number | null): Outcome => ({
    ok: false,
    error: "x",
    status,
    permanent: false,
    retryAfterSecs,
  });
  t.equal(pauseOf(failed(429, 7), 1000), 8000);
  t.equal(pauseOf(failed(503, 0), 1000), 2000);
  t.equal(pauseOf(failed(429, 86_400), 0), 300_000);
  t.equal(pauseOf(failed(429, null), 0), null);
  t.equal(pauseOf(failed(500, 7), 0), null);
  t.equal(pauseOf({ ok: true, status: 200 }, 0), null);
});
