import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { makeSealer } from "./seal.ts";
import { hashToken, newToken, sameSecret } from "./token.ts";

const place = "targets/1/bearer_token";
const [sealer, other, plain] = [makeSealer(Buffer.alloc(32, 1)), makeSealer(Buffer.alloc(32, 2)), makeSealer(null)];

/** The sealed value with its bytes changed. */
function bend(sealed: string, change: (body: Buffer) => Buffer): string {
  const at = sealed.lastIndexOf(":") + 1;
  return sealed.slice(0, at) + change(Buffer.from(sealed.slice(at), "base64url")).toString("base64url");
}
const flip = (at: number) => (body: Buffer) => {
  body[(at + body.length) % body.length]! ^= 1;
  return body;
};

t.test("a sealed value opens, and does not reveal its secret", async (t) => {
  for (const secret of [
    "",
    "pässwörd – 秘密 🔑",
    "x".repeat(70_000),
    "plain:looks like it",
    "sealed:1:so:does this",
    "a\0b",
  ]) {
    const sealed = sealer.seal(secret, place);
    t.match(sealed, /^sealed:1:[\w-]{8}:[\w-]{38,}$/);
    t.equal(sealer.open(sealed, place), secret);
    t.equal(makeSealer(Buffer.alloc(32, 1)).open(sealed, place), secret, "also by another process with the key");
  }
  t.not(sealer.seal("same", place), sealer.seal("same", place), "equal secrets are not to be seen to be equal");
});

t.test("a value of another key or place does not open", async (t) => {
  const sealed = sealer.seal("secret", place);
  t.throws(() => sealer.open(sealed, "targets/2/bearer_token"), "another row");
  t.throws(() => sealer.open(sealed, "targets/1/basic_auth/1"), "another field");
  t.throws(() => other.open(sealed, place), {
    message: new RegExp(`^a secret of ${place} is sealed under key [\\w-]{8}, which is not configured$`),
  });
  t.throws(() => plain.open(sealed, place), { message: /which is not configured/ });
  const keyId = other.seal("", place).split(":")[2]!;
  t.throws(() => other.open(sealed.replace(/^sealed:1:[^:]+/, `sealed:1:${keyId}`), place), "renamed to another key");
  for (const [what, change] of [
    ["nonce", flip(0)],
    ["ciphertext", flip(12)],
    ["tag", flip(-1)],
    ["a tag of 4 bytes", (body: Buffer) => body.subarray(0, -12)],
    ["no tag", (body: Buffer) => body.subarray(0, 12)],
    ["nothing", () => Buffer.alloc(0)],
    ["one more byte", (body: Buffer) => Buffer.concat([body, Buffer.alloc(1)])],
  ] as const)
    t.throws(() => sealer.open(bend(sealed, change), place), what);
  for (const text of ["secret", "", "sealed:", "sealed:1:", "sealed:2:abc:def", "Sealed:1:a:b"])
    t.throws(() => sealer.open(text, place), { message: /has no known form|not configured/ }, text);
});

t.test("without a key secrets are stored in plain text, which a later key still reads", async (t) => {
  t.equal(plain.seal("secret", place), "plain:secret");
  for (const reader of [plain, sealer]) t.equal(reader.open("plain:secret", place), "secret");
  t.equal(plain.open(plain.seal("plain:x", place), place), "plain:x");
});

t.test("tokens are 256 random bits, stored as a hash", async (t) => {
  const tokens = ["sm_live_", "sm_agent_", ""].map((prefix) => newToken(prefix as "sm_live_"));
  matchObject(t, tokens, [/^sm_live_[\w-]{43}$/, /^sm_agent_[\w-]{43}$/, /^[\w-]{43}$/]);
  t.equal(new Set(Array.from({ length: 100 }, () => newToken(""))).size, 100);
  // printf abc | sha256sum
  t.equal(hashToken("abc").toString("hex"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  t.strictSame(
    [sameSecret("abc", "abc"), sameSecret("abc", "abd"), sameSecret("abc", "ab"), sameSecret("", "")],
    [true, false, false, true],
  );
});

t.test("during a rotation both keys open, and only the new one seals", async (t) => {
  const [old, fresh] = [makeSealer(Buffer.alloc(32, 2)), makeSealer(Buffer.alloc(32, 1), Buffer.alloc(32, 2))];
  const before = old.seal("secret", place);
  t.equal(fresh.open(before, place), "secret");
  const after = fresh.reseal(before, place);
  t.equal(sealer.open(after, place), "secret", "the new key alone opens it");
  t.equal(fresh.reseal(after, place), after, "what is as it should be stays byte for byte");
  t.equal(sealer.open(fresh.reseal(plain.seal("secret", place), place), place), "secret", "plain text is sealed");
  t.throws(() => sealer.reseal(before, place), { message: /which is not configured/ });
  t.throws(() => fresh.reseal(before, "targets/2/bearer_token"), "another row");
});
