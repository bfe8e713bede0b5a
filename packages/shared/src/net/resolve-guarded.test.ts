import t from "tap";
import { matchObject } from "../testing.ts";
import { DialError } from "./dial-error.ts";
import { resolveGuarded, type ResolveTrace } from "./resolve-guarded.ts";

const never = new AbortController().signal;
const newTrace = (): ResolveTrace => ({ overdue: "", dns_ms: null });

t.test("the guard", async (t) => {
  const refused = async (host: string, addresses: string[][], message: string) => {
    let lookups = 0;
    const lookup = () => Promise.resolve(addresses[lookups++] ?? []);
    await t.rejects(
      resolveGuarded({ host, allowPrivate: false, signal: never, lookup }),
      { name: "DialError", phase: "guard", code: "BLOCKED", message, transport: false },
      message,
    );
    return lookups;
  };
  /** A name that leads inside fails like one that is absent, in every field. */
  const hidden = async (host: string, addresses: string[][]) => {
    let lookups = 0;
    const trace = newTrace();
    const seen = async (lookup: () => Promise<string[]>) => {
      const error: unknown = await resolveGuarded({ host, allowPrivate: false, signal: never, lookup, trace }).catch(
        (reason: unknown) => reason,
      );
      if (!(error instanceof DialError)) throw error;
      const { phase, code, message, transport, local } = error;
      return { phase, code, message, transport, local, trace };
    };
    const inside = await seen(() => Promise.resolve(addresses[lookups++] ?? []));
    matchObject(t, inside, { phase: "dns", message: /^the name has no public address: / });
    for (const code of ["ENOTFOUND", "ENODATA"])
      t.strictSame(await seen(() => Promise.reject(new DialError("dns", "name not found", code))), inside, host);
    t.strictSame(await seen(() => Promise.resolve([])), inside, host);
    t.strictSame(trace, { ...newTrace(), overdue: trace.overdue }, "and takes no time that is shown");
    return lookups;
  };

  t.equal(await refused("127.0.0.1", [], "address 127.0.0.1 is blocked (127.0.0.0/8)"), 0);
  t.equal(
    await refused("localhost", [["127.0.0.1"]], "address localhost is blocked (localhost)"),
    0,
    "is not even looked up",
  );
  await refused("::ffff:127.0.0.1", [], "address ::ffff:127.0.0.1 is blocked (::ffff:0:0/96)");
  await hidden("internal.example.org", [["127.0.0.1"]]);
  await hidden("mixed.example.org", [["203.0.114.1", "127.0.0.1"]]);
  await hidden("mixed6.example.org", [["2606:4700:4700::1111", "::1"]]);
  t.equal(
    await hidden("rebinding.example.org", [["127.0.0.1"], ["203.0.114.1"]]),
    1,
    "a second answer is never asked for",
  );
  await hidden("odd.example.org", [["127.1"]]);
  // More public addresses than are dialled do not push the private one out of sight.
  await hidden("long.example.org", [[...Array.from({ length: 20 }, (_, i) => `1.1.1.${i}`), "127.0.0.1"]]);
  await t.rejects(
    resolveGuarded({
      host: "away.example.org",
      allowPrivate: false,
      signal: never,
      lookup: () => Promise.reject(new DialError("dns", "the name server did not answer", "ETIMEOUT")),
    }),
    { message: "the name server did not answer" },
    "the error of a name server is passed on unchanged",
  );
});

t.test("without the guard, and an abort", async (t) => {
  const trace = newTrace();
  const found = await resolveGuarded({
    host: "nas.example.org",
    allowPrivate: true,
    signal: never,
    trace,
    lookup: () => Promise.resolve(["127.0.0.1", "::1"]),
  });
  t.strictSame(found, ["127.0.0.1", "::1"]);
  t.ok(trace.dns_ms! >= 0);
  const untouched = newTrace();
  t.strictSame(await resolveGuarded({ host: "1.1.1.1", allowPrivate: false, signal: never, trace: untouched }), [
    "1.1.1.1",
  ]);
  t.equal(untouched.dns_ms, null, "an address takes no lookup");
  const stop = new AbortController();
  const hanging = { host: "hangs.example.org", allowPrivate: false, signal: stop.signal };
  const looking = resolveGuarded({ ...hanging, lookup: () => new Promise(() => undefined) });
  stop.abort(new DOMException("deadline", "TimeoutError"));
  await t.rejects(looking, { name: "DialError", phase: "dns" });
  await t.rejects(resolveGuarded({ ...hanging, lookup: () => t.fail("no lookup") as never }), {
    name: "DialError",
    phase: "dns",
  });
});
