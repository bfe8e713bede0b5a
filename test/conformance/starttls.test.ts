import { chmodSync, chownSync, mkdirSync, writeFileSync } from "node:fs";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { generate } from "selfsigned";
import { checkKinds } from "@statusmesh/shared/checks";
import type { StartTlsProtocol } from "@statusmesh/shared/checks/starttls";
import type { TcpCheck } from "@statusmesh/shared/checks/tcp";
import { trustAlso } from "@statusmesh/shared/net/tls";
import { validate } from "@statusmesh/shared/schema/validate";
import { findBinaries } from "@statusmesh/control-plane/platform/db/embedded/binaries";
import { freePort } from "@statusmesh/control-plane/testing/ports";
import { outcomeOf, testRunner } from "sm-agent/testing";
import { tempFolder } from "../harness/folder.ts";
import { startServer } from "../harness/programs.ts";
import { type Requirement, requires } from "../harness/requires.ts";

/* STARTTLS and greetings at the servers of Debian. That of MySQL is scripted, in the agent's own test. */

const runner = testRunner();
const authority = await generate([{ name: "commonName", value: "Test authority" }], {
  keyType: "ec",
  algorithm: "sha256",
  extensions: [{ name: "basicConstraints", cA: true, critical: true }],
});
trustAlso([authority.cert]);
const { cert, private: key } = await generate([{ name: "commonName", value: "localhost" }], {
  keyType: "ec",
  algorithm: "sha256",
  extensions: [{ name: "subjectAltName", altNames: [{ type: 2, value: "localhost" }] }],
  ca: { key: authority.private, cert: authority.cert },
});

/** A folder with the certificate that another user may read; `files` get the paths of its parts. */
function place(t: Test, files: (folder: string) => Record<string, string> = () => ({})): string {
  const folder = tempFolder(t, "starttls");
  mkdirSync(join(folder, "data"));
  for (const [name, text] of Object.entries({ "cert.pem": cert, "key.pem": key, ...files(folder) }))
    writeFileSync(join(folder, name), text.replaceAll(/^ +/gm, ""));
  return folder;
}

async function check(type: "tcp" | "tls_cert", port: number, change: object): Promise<unknown[]> {
  const spec = { type, host: "localhost", port, timeout: 20_000, ...change };
  const { measurement, warnings } = await outcomeOf(
    runner.run("org", { ...validate(checkKinds[type].schema, spec) }, true),
  );
  return [measurement.status, measurement.error, ...warnings];
}

/** A certificate check and a conversation inside TLS by the protocol. */
async function both(t: Test, name: StartTlsProtocol, port: number, talk: Partial<TcpCheck>): Promise<void> {
  const certificate = await check("tls_cert", port, { starttls: name });
  t.strictSame(certificate, ["up", null], `${name}: the certificate`);
  t.strictSame(await check("tcp", port, { tls: `starttls_${name}`, ...talk }), ["up", null], `${name}: inside TLS`);
  // PostgreSQL 17 and later takes a handshake at once, too.
  const atOnce = await check("tls_cert", port, { timeout: 500 });
  t.equal(atOnce[0], name === "postgres" ? "up" : "error", `${name}: the handshake alone`);
}

/** A test that is skipped without the server. */
const withServer = (program: Requirement, run: (t: Test) => Promise<void>) =>
  t.test(program, async (t) => {
    if (await requires(t, program)) await run(t);
  });

withServer("exim", async (t) => {
  const port = await freePort();
  // As postscreen does, it takes a client that speaks before the greeting for a spammer; the greeting is late.
  const folder = place(t, (at) => ({
    "exim.conf": `keep_environment =
        primary_hostname = mail.example.org
        tls_advertise_hosts = *
        tls_certificate = ${at}/cert.pem
        tls_privatekey = ${at}/key.pem
        pipelining_advertise_hosts =
        pipelining_connect_advertise_hosts =
        spool_directory = ${at}/data
        log_file_path = ${at}/data/%slog
        rfc1413_query_timeout = 0s
        host_lookup =
        acl_smtp_connect = late
        acl_smtp_helo = accept
        begin acl
        late:
        accept delay = 1s
      `,
  }));
  const user = spawnSync("id", ["-u", "Debian-exim"], { encoding: "utf8" }).stdout.trim();
  chownSync(join(folder, "data"), Number(user), Number(user));
  chownSync(join(folder, "key.pem"), Number(user), Number(user));
  const args = ["-bdf", "-C", join(folder, "exim.conf"), "-oX", `127.0.0.1.${port}`, "-oP", join(folder, "data/pid")];
  await startServer(t, ["/usr/sbin/exim4", ...args], { ports: [port] });
  const ehlo = { send: "EHLO a.example\\r\\n", expect: "250-SIZE" };
  const [early, polite, line] = await Promise.all([
    check("tcp", port, ehlo),
    check("tcp", port, { ...ehlo, greeting: "220 " }),
    check("tcp", port, { ...ehlo, greeting: "220" }),
    both(t, "smtp", port, ehlo),
  ]);
  matchObject(t, early, ["down", /got "554 SMTP synchronization error/]);
  t.strictSame(
    [polite, line],
    [
      ["up", null],
      ["up", null],
    ],
    "what waits for the greeting is no spammer",
  );
  t.strictSame(await check("tcp", port, { greeting: "220", expect: "mail.example.org ESMTP" }), ["up", null]);
});

withServer("dovecot", async (t) => {
  const [imap, pop3, sieve] = [await freePort(), await freePort(), await freePort()];
  const listener = (service: string, name: string, port: number) =>
    `service ${service}-login {
      inet_listener ${name} {
        port = ${port}
      }
      inet_listener ${name}s {
        port = 0
      }
    }\n`;
  const folder = place(t, (at) => ({
    "dovecot.conf": `protocols = imap pop3 sieve
      listen = 127.0.0.1
      base_dir = ${at}/data
      state_dir = ${at}/data
      log_path = ${at}/log
      ssl = yes
      ssl_cert = <${at}/cert.pem
      ssl_key = <${at}/key.pem
      passdb {
        driver = static
        args = nopassword=y
      }
      ${listener("imap", "imap", imap)}${listener("pop3", "pop3", pop3)}${listener("managesieve", "sieve", sieve)}`,
  }));
  await startServer(t, ["/usr/sbin/dovecot", "-F", "-c", join(folder, "dovecot.conf")], { ports: [imap, pop3, sieve] });
  await both(t, "imap", imap, { send: "a2 LOGOUT\\r\\n", expect: "* BYE" });
  await both(t, "pop3", pop3, { send: "QUIT\\r\\n", expect: "+OK" });
  // The server lists its capabilities again (RFC 5804 section 2.2).
  await both(t, "sieve", sieve, { greeting: 'OK "TLS', send: "LOGOUT\\r\\n", expect: "OK" });
  t.strictSame(await check("tcp", imap, { greeting: "* OK", send: "a1 LOGOUT\\r\\n", expect: "a1 OK" }), ["up", null]);
  t.strictSame(await check("tcp", pop3, { greeting: "+OK", send: "QUIT\\r\\n", expect: "+OK" }), ["up", null]);
});

withServer("slapd", async (t) => {
  const port = await freePort();
  const folder = place(t, (at) => ({
    "slapd.conf": `pidfile ${at}/data/pid\nTLSCertificateFile ${at}/cert.pem\nTLSCertificateKeyFile ${at}/key.pem\n`,
    "plain.conf": `pidfile ${at}/data/plain\n`,
  }));
  const start = async (at: number, config: string) =>
    await startServer(t, ["/usr/sbin/slapd", "-d", "0", "-h", `ldap://127.0.0.1:${at}`, "-f", join(folder, config)], {
      ports: [at],
    });
  await start(port, "slapd.conf");
  // An unbind request ends the session.
  await both(t, "ldap", port, { send: "\\x30\\x05\\x02\\x01\\x02\\x42\\x00" });
  const plain = await freePort();
  await start(plain, "plain.conf");
  t.strictSame(await check("tls_cert", plain, { starttls: "ldap" }), ["error", "the server does not offer STARTTLS"]);
});

withServer("vsftpd", async (t) => {
  const port = await freePort();
  const folder = place(t, (at) => ({
    "vsftpd.conf": `listen=YES
      listen_address=127.0.0.1
      listen_port=${port}
      background=NO
      anonymous_enable=YES
      ssl_enable=YES
      allow_anon_ssl=YES
      rsa_cert_file=${at}/cert.pem
      rsa_private_key_file=${at}/key.pem
      secure_chroot_dir=${at}/data
      ftpd_banner=two\\nlines
    `,
  }));
  await startServer(t, ["/usr/sbin/vsftpd", join(folder, "vsftpd.conf")], { ports: [port] });
  await both(t, "ftp", port, { send: "FEAT\\r\\n", expect: " AUTH TLS" });
  t.strictSame(await check("tcp", port, { greeting: "220 ", send: "QUIT\\r\\n", expect: "221 Goodbye" }), ["up", null]);
});

withServer("prosody", async (t) => {
  const port = await freePort();
  const folder = place(t, (at) => ({
    "prosody.lua": `run_as_root = true
      pidfile = "${at}/data/pid"
      data_path = "${at}/data"
      modules_enabled = { "saslauth"; "tls" }
      modules_disabled = { "s2s" }
      c2s_ports = { ${port} }
      interfaces = { "127.0.0.1" }
      log = { info = "${at}/data/log" }
      ssl = { certificate = "${at}/cert.pem"; key = "${at}/key.pem" }
      VirtualHost "localhost"
    `,
  }));
  await startServer(t, ["/usr/bin/prosody", "-F", "--config", join(folder, "prosody.lua")], { ports: [port] });
  await both(t, "xmpp", port, {
    send: "<stream:stream to='localhost' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>",
    expect: "<mechanism",
  });
  matchObject(t, await check("tls_cert", port, { starttls: "xmpp", server_name: "other.example.org" }), [
    "error",
    /^STARTTLS was refused: "<stream:error>.*host-unknown/,
  ]);
});

t.test("PostgreSQL", async (t) => {
  const port = await freePort();
  const folder = place(t);
  const owner = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};
  if (owner.uid !== undefined)
    for (const name of ["data", "key.pem"]) chownSync(join(folder, name), owner.uid, owner.gid);
  chmodSync(join(folder, "key.pem"), 0o600);
  const { initdb, postgres } = findBinaries();
  const data = join(folder, "data/pg");
  const made = spawnSync(initdb, ["-D", data, "--auth=trust", "--no-sync", "--no-instructions"], {
    ...owner,
    encoding: "utf8",
  });
  t.equal(made.status, 0, made.stderr);
  const settings = { listen_addresses: "127.0.0.1", port, unix_socket_directories: "", fsync: "off" };
  const tls = { ssl: "on", ssl_cert_file: join(folder, "cert.pem"), ssl_key_file: join(folder, "key.pem") };
  const words = Object.entries({ ...settings, ...tls }).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  await startServer(t, [postgres, "-D", data, ...words], { ...owner, ports: [port], endWith: "SIGINT" });
  // A startup message of version 3.0 for the user `nobody-here`.
  const startup = "\\x00\\x00\\x00\\x1a\\x00\\x03\\x00\\x00user\\x00nobody-here\\x00\\x00";
  await both(t, "postgres", port, { send: startup, expect: 'role "nobody-here" does not exist' });
});
