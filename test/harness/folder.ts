import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { reapFolder } from "./reaper.ts";

/** The part of a test that the harness needs. */
export interface Teardown {
  teardown(undo: () => unknown): void;
}

/** An empty folder that is removed after the test. Its path is short, to leave room for the path of a Unix socket. */
export function tempFolder(t: Teardown, name = "t"): string {
  const folder = fs.realpathSync(fs.mkdtempSync(join(tmpdir(), `sm-${name}-`)));
  // As root the database server runs under another user, which needs access to the folder.
  fs.chmodSync(folder, 0o711);
  reapFolder(folder);
  // The synchronous one does not look again for files that a process wrote meanwhile.
  t.teardown(() => fs.promises.rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 }));
  return folder;
}
