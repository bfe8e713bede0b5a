import { open, readdir, rename, rm, truncate } from "node:fs/promises";
import { join } from "node:path";

/** The segment that is being written. */
export interface SegmentFile {
  /** Writes at an offset and returns the number of bytes written: fewer than given on a full disk, without an error. */
  write(bytes: Buffer, position: number): Promise<number>;
  sync(): Promise<void>;
  close(): Promise<void>;
}

/** The file operations that a spool needs. */
export interface Files {
  list(): Promise<string[]>;
  /** The bytes from `from` up to but not including `to`; fewer at the end of the file. */
  read(name: string, from: number, to: number): Promise<Buffer>;
  size(name: string): Promise<number>;
  /** Fails when the file exists. */
  create(name: string): Promise<SegmentFile>;
  rename(from: string, to: string): Promise<void>;
  truncate(name: string, size: number): Promise<void>;
  /** Succeeds when the file does not exist. */
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
      // Without this the new name, and the synced content, may be lost in a power failure.
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

/** Some network and Windows file systems cannot sync a folder; their names are as durable as they get. */
async function syncFolder(folder: string): Promise<void> {
  try {
    const handle = await open(folder, "r");
    await handle.sync().finally(() => handle.close());
  } catch {
    return;
  }
}
