import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { generate } from "selfsigned";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { checkKinds, type SpecOf } from "@statusmesh/shared/checks";
import { sentBytes } from "@statusmesh/shared/checks/tcp";
import { validate } from "@statusmesh/shared/schema/validate";
import { outcomeOf, tcpServer, testRunner } from "../testing.ts";
import { greetingAdvice } from "./tcp.ts";

/* A conversation over TCP, with and without TLS. Servers behave well or badly. */

type Tcp = SpecOf<"tcp">;
const runner = testRunner();
const { private: key, cert } = await generate([{ name: "commonName", value: "localhost" }], { keyType: "ec" });

async function ask(t: Test, change: Partial<Tcp>, serve: (socket: Socket, heard: (text: string) => void) => void) {
  let heard = "";
  const { port } = await tcpServer(t, (socket) => serve(socket, (text) => (heard += text)));
  const spec = validate(checkKinds.tcp.schema, { type: "tcp", host: "127.0.0.1", port, timeout: 1500, ...change });
  const { measurement, skip } = await outcomeOf(runner.run("org", { ...spec }));
  return { status: measurement.status, error: measurement.error, tls_ms: measurement.tls_ms, skip, heard };
}

t.test("send and expect", async (t) => {
  const echo = (socket: Socket, heard: (text: string) => void) =>
    void socket.on("data", (bytes) => {
      heard(bytes.toString("latin1"));
      socket.write(`+${bytes.toString("latin1")}`, "latin1");
    });
  matchObject(t, await ask(t, { send: "PING\\r\\n", expect: "+PING\r\n" }, echo), {
    status: "up",
    error: null,
    heard: "PING\r\n",
  });
  matchObject(
    t,
    await ask(t, { send: "\\x00\\xFF\\\\\\t" }, (socket, heard) =>
      socket.on("data", (b) => heard(b.toString("latin1"))),
    ),
    {
      status: "up",
    },
  );
  const unmet = await ask(t, { timeout: 300, send: "AUTH hush-hush-hush\\r\\n", expect: "PONG" }, echo);
  matchObject(t, unmet, { status: "down", error: 'the answer does not contain "PONG"; got "+***"', skip: false });
  matchObject(
    t,
    await ask(t, { expect: "SSH-2.0" }, (socket) => {
      socket.write("SSH-");
      setTimeout(() => socket.write("2.0-x\r\n"), 20);
    }),
    { status: "up" },
    "in two parts",
  );
  matchObject(t, await ask(t, { timeout: 300, expect: "SSH" }, () => undefined), {
    status: "error",
    error: /^no answer to what was sent/,
  });
  matchObject(t, await ask(t, { expect: "SSH" }, (socket) => socket.end()), {
    status: "down",
    error: "connection closed without an answer",
  });
  matchObject(t, await ask(t, { expect: "SSH" }, (socket) => socket.end("HTTP/1.1")), {
    status: "down",
    error: /got "HTTP\/1\.1"$/,
  });
  matchObject(t, await ask(t, { expect: "SSH" }, (socket) => void socket.write("x".repeat(100_000))), {
    status: "down",
    error: /^the answer does not contain "SSH"; got "x{199}…"$/,
  });
  matchObject(
    t,
    await ask(t, { expect: "SSH", timeout: 300 }, (socket) => {
      const drip = setInterval(() => socket.write("\u0007"), 20);
      socket.on("close", () => clearInterval(drip));
    }),
    { status: "down", error: /got "(\\u0007)+/ },
  );
  matchObject(t, await ask(t, { expect: "SSH" }, (socket) => socket.resetAndDestroy()), {
    status: "down",
    error: /^connection (reset|closed)/,
  });
});

t.test("a greeting is waited for", async (t) => {
  /** Says the greeting in parts, 50 ms apart, and then answers; who speaks before its end is refused. */
  const after =
    (...parts: string[]) =>
    (socket: Socket, heard: (text: string) => void) => {
      let left = parts.length;
      socket.on("data", (bytes) => {
        heard(bytes.toString());
        socket.write(left > 0 ? "521 5.5.1 Protocol error\r\n" : "250 ok\r\n");
      });
      const say = (): void => {
        socket.write(parts[parts.length - left--]!);
        if (left > 0) setTimeout(say, 50);
      };
      setTimeout(say, 50);
    };
  const ehlo = { send: "EHLO a\\r\\n", expect: "250 ok" };
  const postscreen = after("220-mail.example.org ESMTP\r\n", "220 mail.example.org ESMTP\r\n");
  const cases: [string, Partial<Tcp>, ReturnType<typeof after>, [string, RegExp | null]][] = [
    ["without one", ehlo, postscreen, ["down", /got "521 5\.5\.1 Protocol error/]],
    ["postscreen", { ...ehlo, greeting: "220 " }, postscreen, ["up", null]],
    ["postscreen, by the code", { ...ehlo, greeting: "220" }, postscreen, ["up", null]],
    ["a line in parts", { ...ehlo, greeting: "220" }, after("220 mail", " ready\r", "\n"), ["up", null]],
    ["the name", { ...ehlo, greeting: "mail.example.org" }, postscreen, ["up", null]],
    ["a prompt without end", { ...ehlo, greeting: "login: " }, after("Welcome\r\n", "login: "), ["up", null]],
    [
      "a refusal",
      { ...ehlo, greeting: "220" },
      after("554 no\r\n"),
      ["down", /^the greeting does not contain "220"; got "554 no/],
    ],
    [
      "another text",
      { ...ehlo, greeting: "SSH-2.0", timeout: 500 },
      after("HTTP/1.1"),
      ["down", /^the greeting does not contain "SSH-2\.0"; got "HTTP/],
    ],
    [
      "nothing",
      { ...ehlo, greeting: "220", timeout: 300 },
      () => undefined,
      ["down", /^no greeting with "220" within 0\.30? s$/],
    ],
    [
      "closed",
      { ...ehlo, greeting: "220" },
      (socket) => void socket.end(),
      ["down", /^connection closed without a greeting$/],
    ],
    ["alone", { greeting: "+OK" }, after("+OK ready\r\n"), ["up", null]],
    ["expect reads what follows", { greeting: "220 ", expect: "ESMTP" }, after("220 mail ESMTP\r\n"), ["up", null]],
    [
      "expect does not read the greeting",
      { greeting: "220", send: "NOOP\\r\\n", expect: "220", timeout: 500 },
      after("220 a 220\r\n"),
      ["down", /got "250 ok/],
    ],
  ];
  for (const [what, change, serve, [status, error]] of cases) {
    const result = await ask(t, change, serve);
    t.equal(result.status, status, what);
    if (error === null) t.equal(result.error, null, what);
    else matchObject(t, result.error, error, what);
  }
});

t.test("a check that speaks first on a usual port of servers that do is warned", (t) => {
  const check = { type: "tcp", host: "a.example", timeout: 1000, send: "QUIT\\r\\n" } as const;
  const advice = greetingAdvice({ ...check, port: 110 });
  t.equal(advice, 'Servers of port 110 speak first and may refuse what comes before: set greeting to "+OK".');
  for (const change of [{ port: 6379 }, { greeting: "+OK" }, { send: null }, { tls: "starttls_pop3" as const }])
    t.equal(greetingAdvice({ ...check, port: 110, ...change }), null);
  t.end();
});

t.test("STARTTLS", async (t) => {
  const secured = (socket: Socket, heard: (text: string) => void) => {
    const inner = new TLSSocket(socket, { isServer: true, key, cert });
    inner.on("error", () => undefined);
    inner.on("data", (bytes) => {
      heard(bytes.toString());
      inner.write("250 hello\r\n");
    });
  };
  /** Answers each line by the first script that it begins with. */
  const talking =
    (greeting: string, script: Record<string, string>, then?: "tls") =>
    (socket: Socket, heard: (text: string) => void) => {
      socket.write(greeting);
      socket.on("data", (bytes) => {
        const line = bytes.toString();
        const start = Object.keys(script).find((one) => line.startsWith(one));
        if (start === undefined) return heard(line);
        const last = Object.keys(script).at(-1) === start;
        if (last && then === "tls") socket.removeAllListeners("data");
        socket.write(script[start]!);
        if (last && then === "tls") secured(socket, heard);
      });
    };
  const smtp = { EHLO: "250-mail\r\n250-SIZE 1\r\n250 STARTTLS\r\n", STARTTLS: "220 go\r\n" };
  const over = { verify_tls: false, expect: "250" } as const;
  const through = { tls: "starttls_smtp" } as const;
  const cases: [string, Partial<Tcp>, ReturnType<typeof talking>, object][] = [
    [
      "smtp",
      { ...through, verify_tls: false },
      talking("220-a\r\n220 mail\r\n", smtp, "tls"),
      { status: "up", tls_ms: Number },
    ],
    [
      "imap",
      { tls: "starttls_imap", verify_tls: false },
      talking("* OK hi\r\n", { "a1 STARTTLS": "* x\r\na1 OK\r\n" }, "tls"),
      { status: "up" },
    ],
    [
      "pop3",
      { tls: "starttls_pop3", verify_tls: false },
      talking("+OK hi\r\n", { STLS: "+OK\r\n" }, "tls"),
      { status: "up" },
    ],
    [
      "an unverified certificate",
      { ...through, send: "hush" },
      talking("220 mail\r\n", smtp, "tls"),
      { status: "down", error: "certificate is self-signed", heard: "" },
    ],
    [
      "not offered",
      { ...through, send: "hush" },
      talking("220 mail\r\n", { EHLO: "250 mail\r\n" }),
      { status: "down", error: "the server does not offer STARTTLS", heard: "" },
    ],
    [
      "refused",
      { tls: "starttls_pop3", send: "hush" },
      talking("+OK\r\n", { STLS: "-ERR no\r\n" }),
      { status: "down", error: 'STARTTLS was refused: "-ERR no"', heard: "" },
    ],
    [
      "PREAUTH",
      { tls: "starttls_imap", send: "hush" },
      talking("* PREAUTH\r\n", {}),
      { status: "down", error: 'STARTTLS was refused: "* PREAUTH"', heard: "" },
    ],
    [
      "bytes after the go-ahead",
      { ...through, send: "hush" },
      talking("220 mail\r\n", { ...smtp, STARTTLS: "220 go\r\n250 injected\r\n" }),
      { status: "down", error: "plaintext after STARTTLS", heard: "" },
    ],
    [
      "a greeting without end",
      through,
      talking("220-a\r\n".repeat(10_000), {}),
      { status: "down", error: "the answers before TLS are larger than 32 KiB" },
    ],
    [
      "no greeting",
      { ...through, timeout: 300 },
      talking("", {}),
      { status: "down", error: "STARTTLS timed out after 0.3 s" },
    ],
  ];
  for (const [what, change, serve, expected] of cases) matchObject(t, await ask(t, change, serve), expected, what);
  matchObject(
    t,
    await ask(t, { ...over, tls: "tls" }, (socket, heard) => {
      secured(socket, heard);
    }),
    { status: "error" },
    "silence inside TLS",
  );
});

t.test("what send stands for, and what it may not be", (t) => {
  t.strictSame(sentBytes({ send: "a\\\\\\r\\n\\t\\x00\\xfF é" }), Buffer.from("a\\\r\n\t\0\xff \xc3\xa9", "latin1"));
  const rules = (change: Partial<Tcp>) => () =>
    checkKinds.tcp.rules(validate(checkKinds.tcp.schema, { type: "tcp", host: "a.example", port: 1, ...change }));
  t.throws(rules({ send: "\\q" }), {
    code: "INVALID_EXPECTATION",
    field: "/send",
    message: /The escape \\q is not known/,
  });
  t.throws(rules({ send: "\\x4" }), { code: "INVALID_EXPECTATION" });
  t.throws(rules({ send: "é".repeat(2049) }), { message: /4098 bytes; at most 4096/ });
  t.doesNotThrow(rules({ send: "\\x41".repeat(4096) }));
  t.throws(rules({ send: "a", tls: "tls", verify_tls: false }), {
    code: "INVALID_TLS_CRED_COMBO",
    field: "/verify_tls",
  });
  t.throws(rules({ degraded_above_ms: 20_000 }), { code: "INVALID_THRESHOLD" });
  t.throws(rules({ expect: "" }), { code: "INVALID_EXPECTATION", field: "/expect" });
  t.end();
});
