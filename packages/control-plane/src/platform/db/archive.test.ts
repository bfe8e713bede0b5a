import { PassThrough, Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { gunzipSync, gzipSync } from "node:zlib";
import t from "tap";
import { type Entry, readArchive, writeArchive } from "./archive.ts";

async function archive(entries: readonly Entry[]): Promise<Buffer> {
  const to = new PassThrough();
  const [written] = await Promise.all([
    buffer(to),
    writeArchive(Readable.from(entries) as AsyncIterable<Entry>, to, new Date(0)),
  ]);
  return written;
}

async function read(packed: Buffer): Promise<Entry[]> {
  const found: Entry[] = [];
  for await (const entry of readArchive(Readable.from([packed]))) found.push(entry);
  return found;
}

/** The archive with another size in the header of its first entry, and its checksum. */
function withSize(packed: Buffer, size: number): Buffer {
  const tar = Buffer.from(gunzipSync(packed));
  tar.write(`${size.toString(8).padStart(11, "0")}\0`, 124);
  tar.fill(" ", 148, 156);
  const sum = tar.subarray(0, 512).reduce((all, byte) => all + byte, 0);
  tar.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return gzipSync(tar);
}

t.test("an entry is read into memory only up to the size that a backup writes", async (t) => {
  const small = await archive([{ name: "a", content: Buffer.from("one") }]);
  t.same(await read(small), [{ name: "a", content: Buffer.from("one") }]);
  await t.rejects(read(withSize(small, 1 << 30)), { message: /^This is no backup of StatusMesh, or it is damaged/ });
  await t.rejects(read(withSize(small, 32 << 20)), { message: /^The backup is cut off/ });
  const large = Buffer.alloc((32 << 20) + 1);
  await t.rejects(archive([{ name: "a", content: large }]), { message: /^The part a has 33554433 bytes/ });
});
