import { createHash, createHmac, pbkdf2Sync, randomBytes } from "node:crypto";
import * as fs from "node:fs";
import { join } from "node:path";
import { StartupError } from "../startup-error.ts";

/** Superuser of the embedded database, and owner of everything in it. */
export const superuser = "statusmesh";
const fileName = "postgres.password";

/** The password of the embedded database, or null where the file does not exist yet. Throws StartupError when it cannot be read. */
export function readPassword(dataDir: string): string | null {
  const file = join(dataDir, fileName);
  try {
    const password = fs.readFileSync(file, "utf8").trim();
    if (password !== "") return password;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") return null;
    throw new StartupError(
      `The password of the embedded database in ${file} cannot be read (${code}): run StatusMesh as the owner of that file.`,
      { cause: error },
    );
  }
  throw new StartupError(`The password file ${file} is empty: stop StatusMesh, remove it and start again.`);
}

/**
 * The password of the embedded database; 256 random bits are written to `<data.dir>/postgres.password` where there is none.
 * Only `owner`, the account that runs the control plane, can read the file. Processes that call this at once get the same password.
 */
export function ensurePassword(dataDir: string, owner: number | null): string {
  const file = join(dataDir, fileName);
  const known = readPassword(dataDir);
  if (known !== null) {
    if ((fs.statSync(file).mode & 0o077) !== 0) fs.chmodSync(file, 0o600);
    return known;
  }
  const draft = `${file}.${randomBytes(6).toString("hex")}`;
  const fd = fs.openSync(draft, "wx", 0o600);
  try {
    fs.writeSync(fd, `${randomBytes(32).toString("base64url")}\n`);
    if (owner !== null) fs.fchownSync(fd, owner, fs.fstatSync(fd).gid);
    fs.fsyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
  try {
    // Unlike rename, link leaves the file of another process that was first.
    fs.linkSync(draft, file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  } finally {
    fs.rmSync(draft, { force: true });
  }
  return readPassword(dataDir)!;
}

/** What PostgreSQL stores of a password (RFC 5803). One iteration: 256 random bits need no stretching, and every connection repeats it. */
export function scramSecret(password: string, salt = randomBytes(16), iterations = 1): string {
  const salted = pbkdf2Sync(password, salt, iterations, 32, "sha256");
  const key = (name: string) => createHmac("sha256", salted).update(name).digest();
  const storedKey = createHash("sha256").update(key("Client Key")).digest("base64");
  return `SCRAM-SHA-256$${iterations}:${salt.toString("base64")}$${storedKey}:${key("Server Key").toString("base64")}`;
}

/** The statement that gives the superuser its password; `secret` is from {@link scramSecret}, which holds no quote. */
export const setPassword = (secret: string): string => `alter role ${superuser} password '${secret}'`;

/** True when `secret`, as PostgreSQL stores it, is that of `password`. */
export function isSecretOf(secret: string | null, password: string): boolean {
  const parts = /^SCRAM-SHA-256\$(\d{1,7}):([A-Za-z0-9+/=]+)\$/.exec(secret ?? "");
  return parts !== null && scramSecret(password, Buffer.from(parts[2]!, "base64"), Number(parts[1])) === secret;
}
