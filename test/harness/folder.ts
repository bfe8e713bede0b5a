import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { reapFolder } from "./reaper.ts";

/** The part of a test that the harness needs: something that undoes when the test is over. */
export interface Teardown {
  teardown(undo: () => unknown): void;
}

/** An empty folder that is gone after the test. Short, for the path of a Unix socket is to fit below it. */
export function tempFolder(t: Teardown, name = "t"): string {
  const folder = fs.realpathSync(fs.mkdtempSync(join(tmpdir(), `sm-${name}-`)));
  // As root the database server runs under another user, who has to pass through.
  fs.chmodSync(folder, 0o711);
  reapFolder(folder);
  t.teardown(() => fs.rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 }));
  return folder;
}
