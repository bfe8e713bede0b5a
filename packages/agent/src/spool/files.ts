import { open, readdir, rename, rm, truncate } from "node:fs/promises";
import { join } from "node:path";

/** A segment that is being written. */
export interface SegmentFile {
  /** Writes at a place and says how many bytes arrived: fewer than given on a full disk, without an error. */
  write(bytes: Buffer, position: number): Promise<number>;
  sync(): Promise<void>;
  close(): Promise<void>;
}

/** The folder of a spool, as far as the spool needs one. */
export interface Files {
  list(): Promise<string[]>;
  /** Everything from `from` up to but not including `to`; less where the file ends. */
  read(name: string, from: number, to: number): Promise<Buffer>;
  size(name: string): Promise<number>;
  /** Fails when there is such a file. */
  create(name: string): Promise<SegmentFile>;
  rename(from: string, to: string): Promise<void>;
  truncate(name: string, size: number): Promise<void>;
  /** Succeeds when there is no such file. */
  remove(name: string): Promise<void>;
}

export function folderFiles(folder: string): Files {
  const at = (name: string): string => join(folder, name);
  return {
    list: () => readdir(folder),
    async read(name, from, to) {
      const file = await open(at(name), "r");
      try {
        const bytes = Buffer.allocUnsafe(Math.max(0, to - from));
        let length = 0;
        while (length < bytes.length) {
          const { bytesRead } = await file.read(bytes, length, bytes.length - length, from + length);
          if (bytesRead === 0) break;
          length += bytesRead;
        }
        return bytes.subarray(0, length);
      } finally {
        await file.close();
      }
    },
    async size(name) {
      const file = await open(at(name), "r");
      try {
        return (await file.stat()).size;
      } finally {
        await file.close();
      }
    },
    async create(name) {
      const file = await open(at(name), "wx", 0o600);
      // Without this the new name may be gone after a power failure, and what was synced into it with it.
      await syncFolder(folder);
      return {
        write: async (bytes, position) => (await file.write(bytes, 0, bytes.length, position)).bytesWritten,
        sync: () => file.datasync(),
        close: () => file.close(),
      };
    },
    rename: (from, to) => rename(at(from), at(to)),
    truncate: (name, size) => truncate(at(name), size),
    remove: (name) => rm(at(name), { force: true }),
  };
}

/** Where a folder cannot be synced (some network and Windows file systems), its names are as safe as they get. */
async function syncFolder(folder: string): Promise<void> {
  try {
    const handle = await open(folder, "r");
    await handle.sync().finally(() => handle.close());
  } catch {
    return;
  }
}
