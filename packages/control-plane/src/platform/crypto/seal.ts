import { createCipheriv, createDecipheriv, createHash, randomBytes } from "node:crypto";

/**
 * Seals secrets for the database. `place` (org, table, row, field) is authenticated data (AAD): a sealed value that is
 * copied to another row does not open there.
 */
export interface Sealer {
  seal(secret: string, place: string): string;
  /** Throws {@link UnreadableSecret} when the value was sealed under another key or with other authenticated data. */
  open(sealed: string, place: string): string;
  /** The value sealed under the current key; unchanged when it is already. Throws as {@link open}. */
  reseal(sealed: string, place: string): string;
}

/** A stored secret that cannot be opened: its key is not configured, or it is damaged. Never holds the secret. */
export class UnreadableSecret extends Error {
  override readonly name = "UnreadableSecret";
}

const prefix = "sealed:1:";

/** Prefix of secrets stored without a key. They are sealed at their next write once a key is configured. */
const plain = "plain:";

/** The value as a {@link Sealer} without a key stores it. */
export const inPlain = (secret: string): string => plain + secret;

/** Id of a key in stored values. */
const idOf = (key: Buffer): string => createHash("sha256").update(key).digest("base64url").slice(0, 8);

/**
 * AES-256-GCM under `key` (32 bytes), or no encryption for null. `previous` only opens, during a key rotation.
 * Stored form: `sealed:1:<key id>:<base64url of nonce, ciphertext, tag>`.
 */
export function makeSealer(key: Buffer | null, previous: Buffer | null = null): Sealer {
  const keyId = key === null ? "" : idOf(key);
  const keys = new Map([previous, key].flatMap((known) => (known === null ? [] : [[idOf(known), known] as const])));

  function seal(secret: string, place: string): string {
    if (key === null) return plain + secret;
    const nonce = randomBytes(12);
    const cipher = createCipheriv("aes-256-gcm", key, nonce, { authTagLength: 16 });
    cipher.setAAD(Buffer.from(`${place}/${keyId}`));
    const body = Buffer.concat([nonce, cipher.update(secret, "utf8"), cipher.final(), cipher.getAuthTag()]);
    return `${prefix}${keyId}:${body.toString("base64url")}`;
  }

  function open(sealed: string, place: string): string {
    if (sealed.startsWith(plain)) return sealed.slice(plain.length);
    const [id, data] = sealed.slice(prefix.length).split(":");
    if (!sealed.startsWith(prefix) || id === undefined || data === undefined)
      throw new UnreadableSecret(`a stored secret of ${place} has no known form`);
    const under = keys.get(id);
    if (under === undefined)
      throw new UnreadableSecret(`a secret of ${place} is sealed under key ${id}, which is not configured`);
    const body = Buffer.from(data, "base64url");
    try {
      // Node 20 accepts a 4-byte tag unless the length is given.
      const decipher = createDecipheriv("aes-256-gcm", under, body.subarray(0, 12), { authTagLength: 16 });
      decipher.setAAD(Buffer.from(`${place}/${id}`));
      decipher.setAuthTag(body.subarray(-16));
      return Buffer.concat([decipher.update(body.subarray(12, -16)), decipher.final()]).toString("utf8");
    } catch (cause) {
      throw new UnreadableSecret(`a secret of ${place} is damaged, or belongs elsewhere`, { cause });
    }
  }

  const current = key === null ? plain : `${prefix}${keyId}:`;
  return {
    seal,
    open,
    reseal: (sealed, place) => (sealed.startsWith(current) ? sealed : seal(open(sealed, place), place)),
  };
}
