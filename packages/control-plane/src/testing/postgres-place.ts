import { createHash } from "node:crypto";
import * as fs from "node:fs";
import { tmpdir, totalmem, userInfo } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** Advisory lock in the server's own database: test processes share it, the server's end takes it alone. */
export const usersLock = 7_341_001;
/** Advisory lock for creating a template database. */
export const templateLock = 7_341_002;

const checkout = fileURLToPath(new URL("../../../../", import.meta.url));

/** Memory of a machine where the databases of a test run may take some, bytes. */
const enough = 8 * 1024 ** 3;

/**
 * Test databases live for seconds: in memory where Linux has enough of it, because the kernel would write each of their
 * files to the disk, on the cores that the tests need. SM_TEST_DISK, which benches set, keeps them on disk.
 */
function place(): string {
  const memory = "/dev/shm";
  if (process.env["SM_TEST_DISK"] !== undefined || !fs.existsSync(memory)) return tmpdir();
  const { blocks, bsize } = fs.statfsSync(memory);
  // Not what is free now: all processes of a run have to find the same folder.
  return totalmem() > enough && blocks * bsize > enough / 4 ? memory : tmpdir();
}

/** Folder of this checkout's test server; another checkout and another user have their own. */
export const testFolder = join(
  place(),
  `sm-test-${createHash("sha256").update(`${userInfo().uid} ${checkout}`).digest("hex").slice(0, 10)}`,
);

/** The file with the address of the running server. */
export const addressFile = (folder: string): string => join(folder, "address.json");

/** The file that exists while a process starts a server. */
export const startingFile = (folder: string): string => join(folder, "starting");

/** Removes the address of a server that is gone; the address of another server, which has come since, stays. */
export function removeAddress(folder: string, address: string): void {
  try {
    if (fs.readFileSync(addressFile(folder), "utf8") === address) fs.rmSync(addressFile(folder), { force: true });
  } catch {
    // Another process has removed it.
  }
}
