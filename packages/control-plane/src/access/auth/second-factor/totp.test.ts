import t from "tap";
import { base32, codeAt, otpauthUrl, stepAt, stepOf } from "./totp.ts";

t.test("codes are those of RFC 6238, appendix B, and secrets are base32 of RFC 4648", async (t) => {
  const secret = base32(Buffer.from("12345678901234567890"));
  const vectors: [secs: number, code: string][] = [
    [59, "94287082"],
    [1111111109, "07081804"],
    [1111111111, "14050471"],
    [1234567890, "89005924"],
    [2000000000, "69279037"],
    [20000000000, "65353130"],
  ];
  for (const [secs, code] of vectors) t.equal(codeAt(secret, stepAt(secs * 1000), 8), code);
  for (const [text, encoded] of [
    ["", ""],
    ["f", "MY"],
    ["fo", "MZXQ"],
    ["foo", "MZXW6"],
    ["foob", "MZXW6YQ"],
    ["fooba", "MZXW6YTB"],
    ["foobar", "MZXW6YTBOI"],
  ] as const)
    t.equal(base32(Buffer.from(text)), encoded);
});

t.test("a code fits the steps within the drift only", async (t) => {
  const secret = base32(Buffer.from("12345678901234567890"));
  const now = 1000;
  const found = [-2, -1, 0, 1, 2].map((offset) => stepOf(secret, codeAt(secret, now + offset), now, 1));
  t.strictSame(found, [null, 999, 1000, 1001, null]);
  for (const bad of [
    "",
    "12345",
    "1234567",
    codeAt(secret, now).slice(0, 5),
    "      ",
    "\u0661".repeat(6),
    "-12345",
    "123456\n",
  ])
    t.equal(stepOf(secret, bad, now, 1), null, bad);
  t.equal(
    otpauthUrl("MZXW6", { issuer: "StatusMesh a:b", account: "o+a@example.org" }),
    "otpauth://totp/StatusMesh%20a%3Ab:o%2Ba%40example.org?secret=MZXW6&issuer=StatusMesh%20a%3Ab",
  );
});
