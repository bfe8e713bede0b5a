import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { generate } from "selfsigned";
import t, { type Test } from "tap";
import { checkKinds } from "@statusmesh/shared/checks";
import { type StartTlsProtocol, startTlsNames } from "@statusmesh/shared/checks/starttls";
import { validate } from "@statusmesh/shared/schema/validate";
import { outcomeOf, tcpServer, testRunner } from "../../testing.ts";

/* STARTTLS at scripted servers: what they refuse, leave out, split and add. test/conformance has real ones. */

const runner = testRunner();
const { private: key, cert } = await generate([{ name: "commonName", value: "localhost" }], {
  keyType: "ec",
  algorithm: "sha256",
  extensions: [{ name: "subjectAltName", altNames: [{ type: 2, value: "localhost" }] }],
});

/** A server says one text after another, each but the first after what the client sends; "tls" is a handshake. */
type Script = readonly (string | Buffer | "tls")[];

function serve(script: Script, oneByOne: boolean) {
  return (socket: Socket): void => {
    const say = async (text: string | Buffer): Promise<void> => {
      if (!oneByOne) return void socket.write(text);
      for (const byte of Buffer.from(text)) {
        socket.write(Buffer.from([byte]));
        await new Promise((settle) => setImmediate(settle));
      }
    };
    const [first = "", ...rest] = script;
    void say(first);
    socket.on("data", (heard: Buffer) => {
      const next = rest.shift();
      if (next === undefined) return;
      void say(next).then(() => {
        if (rest[0] !== "tls") return;
        socket.removeAllListeners("data").pause();
        // A client of MySQL begins the handshake without waiting after its SSLRequest of 36 bytes.
        if (next === "" && heard.length > 36) socket.unshift(heard.subarray(36));
        new TLSSocket(socket, { isServer: true, key, cert }).on("error", () => undefined).resume();
      });
    });
  };
}

async function ask(t: Test, starttls: StartTlsProtocol, script: Script, oneByOne = false): Promise<unknown[]> {
  const { port } = await tcpServer(t, serve(script, oneByOne));
  const server = { host: "127.0.0.1", server_name: "localhost", port, timeout: 3000 };
  const { tls_cert, tcp } = checkKinds;
  const certificate = validate(tls_cert.schema, { type: "tls_cert", ...server, starttls });
  const { measurement } = await outcomeOf(runner.run("org", { ...certificate }));
  const check = { type: "tcp", ...server, tls: `starttls_${starttls}`, verify_tls: false };
  const { status, error } = (await outcomeOf(runner.run("org", { ...validate(tcp.schema, check) }))).measurement;
  // The same words; what is an error of the certificate check is down for the port.
  t.equal(error, measurement.error, `${starttls}: ${String(error)}`);
  t.equal(status, measurement.status === "error" ? "down" : measurement.status);
  return [measurement.status, measurement.error];
}

/** The first packet of a MySQL server: its version, and its capabilities from the 32nd byte. */
const mysqlGreeting = (capabilities: number) =>
  Buffer.concat([
    Buffer.from([74, 0, 0, 0, 10]),
    Buffer.from("8.0.36\0"),
    Buffer.from("0800000011223344556677880000".slice(0, 24), "hex"),
    Buffer.from([0, capabilities & 255, capabilities >> 8, 0xff, 2, 0, 0xff, 0xdf, 21, ...Array<number>(10).fill(0)]),
    Buffer.from("aabbccddeeff00112233445500", "hex"),
    Buffer.from("mysql_native_password\0"),
  ]);

/** A MySQL packet: length and sequence number in front. */
const packet = (payload: Buffer) => Buffer.concat([Buffer.from([payload.length, 0, 0, 0]), payload]);

const ldapResult = (code: number) =>
  Buffer.from(`300c02010178070a01${code.toString(16).padStart(2, "0")}04000400`, "hex");
const features = (inner: string) =>
  `<?xml version='1.0'?><stream:stream xmlns:stream='x' id='1'><stream:features>${inner}</stream:features>`;
const starttls = "<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'><required/></starttls>";

const good: Record<StartTlsProtocol, Script> = {
  smtp: ["220-a\r\n220 mail\r\n", "250-mail\r\n250-SIZE 1\r\n250 STARTTLS\r\n", "220 go\r\n", "tls"],
  imap: ["* OK hi\r\n", "* CAPABILITY IMAP4rev1\r\na1 OK\r\n", "tls"],
  pop3: ["+OK hi\r\n", "+OK\r\n", "tls"],
  ftp: ["120 soon\r\n220-Hello\r\n 221 inner\r\nany text\r\n220 ready\r\n", "234 go\r\n", "tls"],
  ldap: ["", ldapResult(0), "tls"],
  postgres: ["", "S", "tls"],
  mysql: [mysqlGreeting(0xf7ff | 0x800), "", "tls"],
  xmpp: ["", features(starttls), "<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>", "tls"],
  sieve: ['"IMPLEMENTATION" "x"\r\n"SIEVE" "fileinto"\r\n"STARTTLS"\r\nOK "hi"\r\n', 'OK "go"\r\n', "tls"],
};

t.test("what servers say, at once and byte by byte", async (t) => {
  for (const name of startTlsNames)
    for (const oneByOne of [false, true]) t.strictSame(await ask(t, name, good[name], oneByOne), ["up", null], name);
});

t.test("refused and not offered: an error of the certificate check, down of the port", async (t) => {
  const notOffered = "the server does not offer STARTTLS";
  const plaintext = "plaintext after STARTTLS";
  const cases: [StartTlsProtocol, Script, string][] = [
    ["smtp", ["554 no\r\n"], 'STARTTLS was refused: "554 no"'],
    ["smtp", ["220 a\r\n", "250-a\r\n250 SIZE\r\n"], notOffered],
    [
      "smtp",
      ["220 a\r\n", "250 STARTTLS\r\n", "454 TLS not available\r\n"],
      'STARTTLS was refused: "454 TLS not available"',
    ],
    ["smtp", ["220 a\r\n", "250 STARTTLS\r\n", "220 go\r\n250 injected\r\n"], plaintext],
    ["smtp", ["220-a\r\n".repeat(10_000)], "the answers before TLS are larger than 32 KiB"],
    ["imap", ["* PREAUTH\r\n"], 'STARTTLS was refused: "* PREAUTH"'],
    ["imap", ["* OK\r\n", "a1 BAD unknown\r\n"], 'STARTTLS was refused: "a1 BAD unknown"'],
    ["imap", ["* OK\r\n", "a1 OK\r\n* injected\r\n"], plaintext],
    ["pop3", ["+OK\r\n", "-ERR no\r\n"], 'STARTTLS was refused: "-ERR no"'],
    ["ftp", ["421 full\r\n"], 'STARTTLS was refused: "421 full"'],
    ["ftp", ["220 a\r\n", "530 log in first\r\n"], 'STARTTLS was refused: "530 log in first"'],
    ["ldap", ["", ldapResult(2)], notOffered],
    ["ldap", ["", ldapResult(52)], 'STARTTLS was refused: "unavailable"'],
    ["ldap", ["", "220 mail.example.org\r\n"], "the answer to STARTTLS is not LDAP"],
    ["ldap", ["", Buffer.from("3084ffffffff", "hex")], "the answer to STARTTLS is not LDAP"],
    ["ldap", ["", Buffer.concat([ldapResult(0), Buffer.from("30")])], plaintext],
    ["postgres", ["", "N"], notOffered],
    ["postgres", ["", "E"], "the answer to SSLRequest is not PostgreSQL"],
    // CVE-2021-23214.
    ["postgres", ["", "SR"], plaintext],
    ["mysql", [mysqlGreeting(0xf7ff & ~0x800)], notOffered],
    [
      "mysql",
      [packet(Buffer.concat([Buffer.from([0xff, 0x69, 4]), Buffer.from("Host '10.0.0.1' is blocked")]))],
      `STARTTLS was refused: "Host '10.0.0.1' is blocked"`,
    ],
    ["mysql", [packet(Buffer.from([10, 0]))], "the greeting is not MySQL"],
    ["mysql", ["220 mail.example.org ESMTP\r\n"], "the greeting is not MySQL"],
    ["xmpp", ["", features("<mechanisms/>")], notOffered],
    ["xmpp", ["", "<stream:stream><stream:features/>"], notOffered],
    [
      "xmpp",
      ["", "<stream:stream><stream:error><host-unknown/></stream:error></stream:stream>"],
      'STARTTLS was refused: "<stream:error><host-unknown/></stream:error></stream:stream>"',
    ],
    ["xmpp", ["", features(starttls), "<failure xmlns='x'/>"], `STARTTLS was refused: "<failure xmlns='x'/>"`],
    ["xmpp", ["", features(starttls), "<proceed xmlns='x'/><iq/>"], plaintext],
    ["sieve", ['"SIEVE" "fileinto"\r\nOK\r\n'], notOffered],
    ["sieve", ["BYE\r\n"], 'STARTTLS was refused: "BYE"'],
    ["sieve", ['"STARTTLS"\r\nOK\r\n', 'NO "later"\r\n'], `STARTTLS was refused: ${JSON.stringify('NO "later"')}`],
  ];
  for (const [name, script, error] of cases) t.strictSame(await ask(t, name, script), ["error", error], name);
});
