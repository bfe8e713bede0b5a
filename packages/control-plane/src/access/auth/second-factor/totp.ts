import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";

/** RFC 6238: steps of 30 s from the epoch, six digits, HMAC-SHA-1, which every authenticator app supports. */
const stepSecs = 30;
const digits = 6;
const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/** A new secret: 160 bits (RFC 4226, section 4), in base32. */
export const newSecret = (): string => base32(randomBytes(20));

/** Step of a time in ms. */
export const stepAt = (ms: number): number => Math.floor(ms / 1000 / stepSecs);

/** The code of a step: HOTP (RFC 4226, section 5.3) of the step as the counter. */
export function codeAt(secret: string, step: number, length = digits): string {
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(step));
  const mac = createHmac("sha1", fromBase32(secret)).update(counter).digest();
  const number = mac.readUInt32BE(mac.at(-1)! & 15) & 0x7fffffff;
  return String(number % 10 ** length).padStart(length, "0");
}

/** The latest step within `drift` steps of `now` whose code this is; null for none. */
export function stepOf(secret: string, code: string, now: number, drift: number): number | null {
  if (!/^\d{6}$/.test(code)) return null;
  let found: number | null = null;
  for (let step = now - drift; step <= now + drift; step++)
    if (timingSafeEqual(Buffer.from(codeAt(secret, step)), Buffer.from(code))) found = step;
  return found;
}

/** The address that an authenticator app reads from a QR code (Key Uri Format of Google Authenticator). */
export function otpauthUrl(secret: string, { issuer, account }: { issuer: string; account: string }): string {
  const label = [issuer, account].map((part) => encodeURIComponent(part)).join(":");
  return `otpauth://totp/${label}?secret=${secret}&issuer=${encodeURIComponent(issuer)}`;
}

/** Base32 without padding (RFC 4648, section 6). */
export function base32(bytes: Buffer): string {
  const bits = [...bytes].map((byte) => byte.toString(2).padStart(8, "0")).join("");
  return bits.replaceAll(/.{1,5}/g, (five) => alphabet[Number.parseInt(five.padEnd(5, "0"), 2)]!);
}

function fromBase32(text: string): Buffer {
  const bits = [...text].map((letter) => alphabet.indexOf(letter).toString(2).padStart(5, "0")).join("");
  return Buffer.from((bits.match(/.{8}/g) ?? []).map((byte) => Number.parseInt(byte, 2)));
}
