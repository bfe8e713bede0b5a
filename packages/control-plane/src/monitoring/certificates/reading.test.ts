import { execFileSync, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { readMaterial } from "./reading.ts";

/* Keys and certificates as openssl writes them, and what would cost too much or cannot be used. */

const skip = spawnSync("openssl", ["version"]).status === 0 ? false : "openssl is missing";
if (skip !== false && (process.env["SM_TEST_REQUIRE"] ?? "").includes("openssl")) throw new Error(skip);

const folder = mkdtempSync(join(tmpdir(), "sm-certificates-"));
const at = (name: string): string => join(folder, name);
const openssl = (...words: string[]): void => void execFileSync("openssl", words, { cwd: folder, stdio: "pipe" });
const text = (name: string): string => readFileSync(at(name), "utf8");
const pass = ["-passout", "pass:s3crét"];

function issue(name: string, key: string[], more: string[] = []): string {
  if (skip !== false) return "";
  openssl("genpkey", ...key, "-out", `${name}.key`);
  openssl("req", "-x509", "-key", `${name}.key`, "-subj", `/CN=${name}`, "-days", "30", "-out", `${name}.pem`, ...more);
  return text(`${name}.pem`);
}
const rsa = issue("rsa", ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]);
const ec = issue("ec", ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]);
const ed = issue("ed", ["-algorithm", "ED25519"]);

const refused = async (t: Test, work: Promise<unknown>) =>
  await work.then(
    () => t.fail("it was accepted"),
    (error: unknown) => error as { code: string; message: string; field: string },
  );

t.test("every form of a key that openssl writes", { skip }, async (t) => {
  const forms: Record<string, () => void> = {
    "rsa.pkcs8": () => openssl("pkcs8", "-topk8", "-nocrypt", "-in", "rsa.key", "-out", "rsa.pkcs8"),
    "rsa.pkcs1": () => openssl("rsa", "-traditional", "-in", "rsa.key", "-out", "rsa.pkcs1"),
    "rsa.dek": () => openssl("rsa", "-traditional", "-aes256", ...pass, "-in", "rsa.key", "-out", "rsa.dek"),
    "rsa.pbes2": () => openssl("pkcs8", "-topk8", "-v2", "aes-256-cbc", ...pass, "-in", "rsa.key", "-out", "rsa.pbes2"),
    "rsa.sha512": () =>
      openssl(
        ..."pkcs8 -topk8 -v2 des3 -v2prf hmacWithSHA512 -iter 100000".split(" "),
        ...pass,
        ..."-in rsa.key -out rsa.sha512".split(" "),
      ),
    "rsa.scrypt": () => openssl("pkcs8", "-topk8", "-scrypt", ...pass, "-in", "rsa.key", "-out", "rsa.scrypt"),
    "rsa.pbe1": () => openssl("pkcs8", "-topk8", "-v1", "PBE-SHA1-3DES", ...pass, "-in", "rsa.key", "-out", "rsa.pbe1"),
    "ec.sec1": () => openssl("ec", "-in", "ec.key", "-out", "ec.sec1"),
    "ec.dek": () => openssl("ec", "-aes128", ...pass, "-in", "ec.key", "-out", "ec.dek"),
    "ec.pbes2": () => openssl("pkcs8", "-topk8", "-v2", "aes-128-cbc", ...pass, "-in", "ec.key", "-out", "ec.pbes2"),
    "ed.key": () => undefined,
    "ed.pbes2": () => openssl("pkcs8", "-topk8", ...pass, "-in", "ed.key", "-out", "ed.pbes2"),
  };
  const certificates: Record<string, string> = { rsa, ec, ed };
  for (const [name, write] of Object.entries(forms)) {
    write();
    const owner = name.split(".")[0]!;
    const key = { pem: text(name), password: "s3crét" };
    const read = await readMaterial("client", certificates[owner]!, key);
    t.equal(read.subject, `CN=${owner}`, name);
    t.match(read.private_key, /^-----BEGIN PRIVATE KEY-----/, `${name}: PKCS #8 without a passphrase`);
    if (!/ENCRYPTED/.test(key.pem)) continue;
    for (const [password, words] of [
      ["other", /passphrase does not open/],
      [null, /has a passphrase/],
    ] as const) {
      const error = await refused(t, readMaterial("client", certificates[owner]!, { ...key, password }));
      matchObject(t, error, { code: "INVALID_CERTIFICATE", field: "/password", message: words }, `${name} ${password}`);
    }
  }
});

t.test("several certificates: the own one first, without the text between them", { skip }, async (t) => {
  const key = { pem: `Bag Attributes\n${text("ec.key")}`, password: null };
  const read = await readMaterial("client", `subject=/CN=x\n${rsa}\nsecret words\n${ec}`, key);
  t.equal(read.certificate, ec + rsa);
  const other = await refused(t, readMaterial("client", rsa + ed, key));
  matchObject(t, other, { code: "CERTIFICATE_KEY_MISMATCH", field: "/private_key", message: /CN=rsa/ });
});

t.test("what cannot be used is refused with a reason", { skip }, async (t) => {
  const dsa = () => {
    openssl("genpkey", "-genparam", "-algorithm", "DSA", "-pkeyopt", "dsa_paramgen_bits:1024", "-out", "dsa.params");
    openssl("genpkey", "-paramfile", "dsa.params", "-out", "dsa.key");
    return text("dsa.key");
  };
  const pem = (label: string, body: Buffer | string): string =>
    `-----BEGIN ${label}-----\n${Buffer.from(body).toString("base64")}\n-----END ${label}-----\n`;
  issue("long", ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:512"], ["-sha256"]);
  const own = { pem: text("ec.key"), password: null };
  const cases: [string, Parameters<typeof readMaterial>, RegExp, string][] = [
    ["no PEM", ["ca", "hello", null], /No certificate is in the text/, "/certificate"],
    ["damaged", ["ca", pem("CERTIFICATE", "hello"), null], /The certificate is damaged/, "/certificate"],
    ["cut", ["ca", ec + rsa.replace(/\n.{9}/, "\n"), null], /Certificate 2 is damaged/, "/certificate"],
    ["a key in it", ["ca", ec + text("ec.key"), null], /holds a private key/, "/certificate"],
    ["too many", ["ca", ec.repeat(33), null], /33 certificates; at most 32/, "/certificate"],
    ["an authority with a key", ["ca", ec, own], /no private key here/, "/private_key"],
    ["a client without one", ["client", ec, null], /needs its private key/, "/private_key"],
    ["no key", ["client", ec, { pem: ec, password: null }], /No private key/, "/private_key"],
    ["cut key", ["client", ec, { pem: pem("PRIVATE KEY", "0\x82"), password: null }], /key is damaged/, "/private_key"],
    ["DSA", ["client", ec, { pem: dsa(), password: null }], /another algorithm/, "/private_key"],
    ["OpenSSH", ["client", ec, { pem: pem("OPENSSH PRIVATE KEY", "x"), password: null }], /ssh-keygen/, "/private_key"],
    [
      "too weak for OpenSSL",
      ["client", text("long.pem"), { pem: text("long.key"), password: null }],
      /OpenSSL does not use this certificate/,
      "/certificate",
    ],
  ];
  for (const [name, input, message, field] of cases)
    matchObject(t, await refused(t, readMaterial(...input)), { code: "INVALID_CERTIFICATE", message, field }, name);
});

t.test("costly passphrases are refused before anything is computed", { skip }, async (t) => {
  const int = (value: number): Buffer => {
    const bytes = Buffer.from(value.toString(16).padStart(12, "0"), "hex");
    return Buffer.from([2, bytes.length, ...bytes]);
  };
  const seq = (...parts: Buffer[]): Buffer => {
    const body = Buffer.concat(parts);
    return Buffer.concat([Buffer.from([0x30, 0x82, body.length >> 8, body.length & 255]), body]);
  };
  const oid = (hex: string): Buffer => Buffer.from([6, hex.length / 2, ...Buffer.from(hex, "hex")]);
  const octets = (length: number): Buffer =>
    Buffer.from([4, length, ...createHash("sha256").digest().subarray(0, length)]);
  const key = (kdf: Buffer): string =>
    `-----BEGIN ENCRYPTED PRIVATE KEY-----\n${seq(
      seq(oid("2a864886f70d01050d"), seq(kdf, seq(oid("60864801650304012a"), octets(16)))),
      octets(32),
    ).toString("base64")}\n-----END ENCRYPTED PRIVATE KEY-----\n`;
  const pbkdf2 = (rounds: number): string => key(seq(oid("2a864886f70d01050c"), seq(octets(8), int(rounds))));
  const scrypt = (N: number, r: number, p: number): string =>
    key(seq(oid("2b06010401da47040b"), seq(octets(8), int(N), int(r), int(p))));
  const started = performance.now();
  const costly = [
    pbkdf2(100_001),
    pbkdf2(2 ** 40),
    scrypt(2 ** 20, 8, 1),
    scrypt(2, 2 ** 30, 2 ** 30),
    scrypt(0, 8, 1),
  ];
  const flood = Array.from({ length: 200 }, (_, at) => costly[at % costly.length]!);
  const errors = await Promise.all(flood.map((pem) => refused(t, readMaterial("client", ec, { pem, password: "x" }))));
  for (const error of errors) matchObject(t, error, { code: "INVALID_CERTIFICATE", message: /at most 100,000 rounds/ });
  t.comment(`${Math.round(performance.now() - started)} ms for ${flood.length} keys`);
  openssl("pkcs8", "-topk8", "-iter", "100001", ...pass, "-in", "ec.key", "-out", "ec.many");
  matchObject(t, await refused(t, readMaterial("client", ec, { pem: text("ec.many"), password: "s3crét" })), {
    message: /at most 100,000 rounds/,
  });
});

t.test("a bundle of one MiB and nonsense of any shape end with an error", { skip }, async (t) => {
  for (const nonsense of [
    "-----BEGIN CERTIFICATE-----".repeat(40_000),
    `-----BEGIN CERTIFICATE-----${"A".repeat(1_048_576)}-----END CERTIFICATE-----`,
    `${"-".repeat(1_048_576)}BEGIN`,
  ])
    matchObject(t, await refused(t, readMaterial("ca", nonsense, null)), { code: "INVALID_CERTIFICATE" });
  const key = { pem: `-----BEGIN PRIVATE KEY-----${"/".repeat(65_000)}-----END PRIVATE KEY-----`, password: null };
  matchObject(t, await refused(t, readMaterial("client", ec, key)), {
    code: "INVALID_CERTIFICATE",
    field: "/private_key",
  });
});

t.teardown(() => rmSync(folder, { recursive: true }));
