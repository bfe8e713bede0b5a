import { createHash } from "node:crypto";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** Advisory lock in the server's own database: shared by its users, exclusive for its end. */
export const usersLock = 7_341_001;
/** Advisory lock for making a template. */
export const templateLock = 7_341_002;

const checkout = fileURLToPath(new URL("../../../", import.meta.url));

/** The folder of this checkout's test server: two checkouts, or two users, do not meet. */
export const testFolder = join(
  tmpdir(),
  `sm-test-${createHash("sha256").update(`${userInfo().uid} ${checkout}`).digest("hex").slice(0, 10)}`,
);

/** Where the address of the running server stands. */
export const addressFile = (folder: string): string => join(folder, "address.json");

/** There while somebody starts a server. */
export const startingFile = (folder: string): string => join(folder, "starting");
