import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { StartupError } from "../../../config/startup-error.ts";
import { asStartupError, failureAnswer, failureOf } from "./failures.ts";

/** As the client makes them of what the server says. */
const said = (code: string) => Object.assign(new Error(code), { name: "PostgresError", severity: "ERROR", code });
const ofCitus = (code: string, routine: string, message = "") => Object.assign(said(code), { routine, message });
const ofSocket = (code: string, syscall: string) => Object.assign(new Error(code), { code, syscall });

t.test("what an error of the database means", async (t) => {
  const cases: [unknown, ReturnType<typeof failureOf>][] = [
    [said("25006"), "readonly"],
    [said("25P03"), "busy"],
    [said("40001"), "conflict"],
    [said("40P01"), "conflict"],
    [said("40003"), "away"],
    [said("53000"), "busy"],
    [said("53100"), "full"],
    [said("53200"), "busy"],
    [said("53300"), "busy"],
    [said("55P03"), "busy"],
    [said("57014"), "busy"],
    [said("57P01"), "away"],
    [said("57P02"), "away"],
    [said("57P03"), "away"],
    [said("57P05"), "away"],
    [said("58030"), "full"],
    [said("08000"), "away"],
    [said("08P01"), "away"],
    [said("28P01"), "away"],
    [said("3D000"), "away"],
    [ofSocket("ECONNREFUSED", "connect"), "away"],
    [ofSocket("ECONNRESET", "read"), "away"],
    [ofSocket("EPIPE", "write"), "away"],
    [ofSocket("ENOENT", "connect"), "away"],
    [ofSocket("EAI_AGAIN", "getaddrinfo"), "away"],
    [Object.assign(new Error("x"), { code: "CONNECTION_CLOSED" }), "away"],
    [Object.assign(new Error("x"), { code: "COMMIT_PENDING" }), "away"],
    [Object.assign(new Error("x"), { code: "CONNECT_TIMEOUT" }), "away"],
    [Object.assign(new Error("x"), { code: "TARGET_SESSION_ATTRS" }), "readonly"],
    // What Citus said when a worker was killed in the middle of a statement.
    [ofCitus("XX000", "MarkRemoteTransactionFailed", "failure on connection marked as essential: w1:5432"), "away"],
    [ofCitus("58030", "EndRemoteCopy", "failed to COPY to shard 102016 on w1:5432"), "away"],
    [ofCitus("XX000", "ReportResultError", "SSL SYSCALL error: EOF detected\ninvalid socket"), "away"],
    [ofCitus("XX000", "ReportResultError", "server closed the connection unexpectedly\n\tThis probably"), "away"],
    // Defects of ours, which must be seen as such.
    [ofCitus("XX000", "ReportResultError", "cache lookup failed for relation 4711"), null],
    [said("XX000"), null],
    [said("23505"), null],
    [said("42P01"), null],
    [said("42501"), null],
    [said("25P02"), null],
    [said("XX001"), null],
    [ofSocket("ENOENT", "open"), null],
    [Object.assign(new Error("x"), { code: "ERR_INVALID_ARG_TYPE" }), null],
    [new Error("57P01"), null],
    ["57P01", null],
    [null, null],
    [{ code: 57 }, null],
  ];
  for (const [error, expected] of cases)
    t.equal(failureOf(error), expected, `${String(error)} ${String((error as { syscall?: string } | null)?.syscall)}`);
});

t.test("every failure has a reply with Retry-After", async (t) => {
  for (const failure of ["away", "readonly", "full", "busy", "conflict"] as const) {
    const error = failureAnswer(failure, said("57P01"));
    matchObject(t, error, { code: "DEPENDENCY_DOWN", status: 503 }, failure);
    t.ok((error.retryAfterSecs ?? 0) >= 1);
  }
});

t.test("a failure of the database during a start is temporary, and no other error is", (t) => {
  const lost = Object.assign(new Error("read ECONNRESET"), { code: "ECONNRESET", syscall: "read" });
  matchObject(t, asStartupError(lost), {
    name: "StartupError",
    exitCode: 75,
    message: /does not answer.*\(read ECONNRESET\)$/,
  });
  const defect = new TypeError("x is not a function");
  t.equal(asStartupError(defect), defect);
  const known = new StartupError("Set database.url.", { cause: lost });
  t.equal(asStartupError(known), known);
  t.end();
});
