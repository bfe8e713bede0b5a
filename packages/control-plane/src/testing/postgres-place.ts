import { createHash } from "node:crypto";
import * as fs from "node:fs";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** Advisory lock in the server's own database: test processes share it, the server's end takes it alone. */
export const usersLock = 7_341_001;
/** Advisory lock for creating a template database. */
export const templateLock = 7_341_002;

const checkout = fileURLToPath(new URL("../../../../", import.meta.url));

/** Folder with initdb and postgres of another PostgreSQL than the bundled one. */
export const programs = process.env["SM_TEST_POSTGRES"];

/** Folder of this checkout's test server; another checkout, user and PostgreSQL have their own. @public */
export const testFolderIn = (parent: string): string =>
  join(
    parent,
    `sm-test-${createHash("sha256")
      .update(`${userInfo().uid} ${checkout}${programs ?? ""}`)
      .digest("hex")
      .slice(0, 10)}`,
  );

export const testFolder = testFolderIn(tmpdir());

/** The file with the address of the running server. */
export const addressFile = (folder: string): string => join(folder, "address.json");

/** The file that exists while a process starts a server. */
export const startingFile = (folder: string): string => join(folder, "starting");

/** The file with the reason why the last start of a server failed. */
export const failureFile = (folder: string): string => join(folder, "failure");

/** Removes the address of a server that is gone; the address of another server, which has come since, stays. */
export function removeAddress(folder: string, address: string): void {
  try {
    if (fs.readFileSync(addressFile(folder), "utf8") === address) fs.rmSync(addressFile(folder), { force: true });
  } catch {
    // Another process has removed it.
  }
}
