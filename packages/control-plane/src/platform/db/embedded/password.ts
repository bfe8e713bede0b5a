import { createHash, createHmac, pbkdf2Sync, randomBytes } from "node:crypto";
import * as fs from "node:fs";
import { join } from "node:path";
import { codeOf } from "@statusmesh/shared/thrown";
import { StartupError } from "../../../config/startup-error.ts";

/** Superuser of the embedded database, and owner of everything in it. */
export const superuser = "statusmesh";
const fileName = "postgres.password";

/** Returns the password of the embedded database; null before the file exists. Throws StartupError. */
export function readPassword(dataDir: string): string | null {
  const file = join(dataDir, fileName);
  try {
    const password = fs.readFileSync(file, "utf8").trim();
    if (password !== "") return password;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") return null;
    throw new StartupError(
      `The password of the embedded database in ${file} cannot be read (${code}): ` +
        "run StatusMesh as the owner of that file.",
      { cause: error },
    );
  }
  throw new StartupError(`The password file ${file} is empty: stop StatusMesh, remove it and start again.`);
}

/**
 * Returns the password of the embedded database. Writes 256 random bits to `<data.dir>/postgres.password` if there is
 * none, readable for `owner` alone, the account of the control plane. Concurrent calls return the same password.
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
    // Unlike rename, link does not replace the file of another process.
    fs.linkSync(draft, file);
  } catch (error) {
    if (codeOf(error) !== "EEXIST") throw error;
  } finally {
    fs.rmSync(draft, { force: true });
  }
  return readPassword(dataDir)!;
}

/** Returns the SCRAM secret that PostgreSQL stores (RFC 5803). One iteration: 256 random bits need no stretching. */
export function scramSecret(password: string, salt = randomBytes(16), iterations = 1): string {
  const salted = pbkdf2Sync(password, salt, iterations, 32, "sha256");
  const key = (name: string) => createHmac("sha256", salted).update(name).digest();
  const storedKey = createHash("sha256").update(key("Client Key")).digest("base64");
  return `SCRAM-SHA-256$${iterations}:${salt.toString("base64")}$${storedKey}:${key("Server Key").toString("base64")}`;
}

/** Statement that sets the superuser's password. `secret` is from {@link scramSecret} and has no quote. */
export const setPassword = (secret: string): string => `alter role ${superuser} password '${secret}'`;

/** Returns whether `secret`, as stored by PostgreSQL, belongs to `password`. */
export function isSecretOf(secret: string | null, password: string): boolean {
  const parts = /^SCRAM-SHA-256\$(\d{1,7}):([A-Za-z0-9+/=]+)\$/.exec(secret ?? "");
  return parts !== null && scramSecret(password, Buffer.from(parts[2]!, "base64"), Number(parts[1])) === secret;
}
