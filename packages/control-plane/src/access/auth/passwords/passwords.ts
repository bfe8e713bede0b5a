import { randomBytes, timingSafeEqual } from "node:crypto";
import { AppError } from "@statusmesh/shared/errors";
import type { HashCost, System } from "../../../platform/context.ts";
import { openScrypt } from "./scrypt.ts";

const threads = openScrypt();

/** In code points after NFC (Unicode TR 15). */
const minLength = 10;
const maxLength = 256;
/** Code points that are left after everything that is known of the person is taken out. */
const minOwn = 6;

/** 32 MiB and about 0.25 s of a core. */
const usualCost: HashCost = { log2N: 15, r: 8, p: 3 };
const hashBytes = 32;

type Costs = Pick<System, "hashCost">;

/** The password as it is hashed: the same character typed on two keyboards is the same bytes (NFC). */
const normalised = (password: string): string => password.normalize("NFC");

/**
 * Throws WEAK_PASSWORD, with the reason, for a password of the wrong length, among the most used ones, or made of what
 * is known of the person. `known`: addresses, names and hosts.
 */
export async function requireStrong(password: string, known: readonly string[], field = "/password"): Promise<void> {
  const text = normalised(password);
  const weak = (reason: string) => new AppError("WEAK_PASSWORD", reason, { field });
  const length = [...text].length;
  if (length < minLength) throw weak(`Use at least ${minLength} characters; this password has ${length}.`);
  if (length > maxLength) throw weak(`Use at most ${maxLength} characters; this password has ${length}.`);
  const lower = text.toLowerCase();
  // Loaded on demand: 25 kB.
  const { commonPasswords } = await import("./common-passwords.ts");
  if (commonPasswords.has(lower))
    throw weak("This is one of the most used passwords, which attackers try first. Choose another one.");
  const parts = known.map((part) => normalised(part).toLowerCase()).filter((part) => part !== "");
  const own = parts.sort((a, b) => b.length - a.length).reduce((left, part) => left.replaceAll(part, ""), lower);
  if ([...own].length < minOwn)
    throw weak(
      "This password is little more than your address, a name or the address of this service. " +
        `Add at least ${minOwn} characters of something else.`,
    );
}

/** The stored form: `scrypt:<log2 N>:<r>:<p>:<salt>:<hash>`, in base64url. Takes 0.25 s of a thread. */
export async function hashPassword({ hashCost = usualCost }: Costs, password: string): Promise<string> {
  const salt = randomBytes(16);
  const hash = await derived(password, salt, hashCost);
  const { log2N, r, p } = hashCost;
  return ["scrypt", log2N, r, p, salt.toString("base64url"), hash.toString("base64url")].join(":");
}

/**
 * Whether the password has this stored hash; `outdated` where it was made with other parameters than the current ones.
 * Null, for an account without a password, takes as long and never matches.
 */
export async function verifyPassword(
  { hashCost = usualCost }: Costs,
  password: string,
  stored: string | null,
): Promise<{ matches: boolean; outdated: boolean }> {
  const { cost, salt, hash } = stored === null ? decoy(hashCost) : partsOf(stored);
  const made = await derived(password, salt, cost);
  const matches = timingSafeEqual(made, hash) && stored !== null;
  const { log2N, r, p } = hashCost;
  return { matches, outdated: matches && (cost.log2N !== log2N || cost.r !== r || cost.p !== p) };
}

const decoy = (cost: HashCost) => ({ cost, salt: Buffer.alloc(16), hash: Buffer.alloc(hashBytes) });

function partsOf(stored: string): { cost: HashCost; salt: Buffer; hash: Buffer } {
  const [, log2N, r, p, salt, hash] = stored.split(":");
  return {
    cost: { log2N: Number(log2N), r: Number(r), p: Number(p) },
    salt: Buffer.from(salt!, "base64url"),
    hash: Buffer.from(hash!, "base64url"),
  };
}

const derived = (password: string, salt: Buffer, { log2N, r, p }: HashCost): Promise<Buffer> =>
  threads.derive({
    password: normalised(password),
    salt,
    bytes: hashBytes,
    options: { N: 2 ** log2N, r, p, maxmem: 2 * 128 * 2 ** log2N * r },
  });
