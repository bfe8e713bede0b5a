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

/** The archive with another text at a place of its first header, and its checksum. */
function changed(packed: Buffer, at: number, text: string | Buffer, { sum = true } = {}): Buffer {
  const tar = Buffer.from(gunzipSync(packed));
  Buffer.from(text).copy(tar, at);
  if (sum) {
    tar.fill(" ", 148, 156);
    const all = tar.subarray(0, 512).reduce((sum, byte) => sum + byte, 0);
    tar.write(`${all.toString(8).padStart(6, "0")}\0 `, 148);
  }
  return gzipSync(tar);
}

const withSize = (packed: Buffer, size: number) => changed(packed, 124, `${size.toString(8).padStart(11, "0")}\0`);

t.test("an entry is read into memory only up to the size that a backup writes", async (t) => {
  const small = await archive([{ name: "a", content: Buffer.from("one") }]);
  t.same(await read(small), [{ name: "a", content: Buffer.from("one") }]);
  await t.rejects(read(withSize(small, 1 << 30)), { message: /^This is no backup of StatusMesh, or it is damaged/ });
  await t.rejects(read(withSize(small, 32 << 20)), { message: /^The backup is cut off/ });
  const large = Buffer.alloc((32 << 20) + 1);
  await t.rejects(archive([{ name: "a", content: large }]), { message: /^The part a has 33554433 bytes/ });
});

t.test("only plain files with a plain header are entries", async (t) => {
  const small = await archive([{ name: "a", content: Buffer.from("one") }]);
  const hostile: Record<string, Buffer> = {
    "negative size": changed(small, 124, "-0000000003\0"),
    "digits and letters": changed(small, 124, "0000000003x\0"),
    "no size": changed(small, 124, Buffer.alloc(12)),
    "binary size (GNU)": changed(small, 124, Buffer.from([0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3])),
    "negative binary size": changed(small, 124, Buffer.alloc(12, 0xff)),
    "largest octal size": changed(small, 124, "77777777777\0"),
    "wrong sum": changed(small, 0, "b", { sum: false }),
    "no sum": changed(small, 148, Buffer.alloc(8), { sum: false }),
    "no ustar": changed(small, 257, Buffer.alloc(6)),
    prefix: changed(small, 345, "../.."),
    "not gzip": gunzipSync(small),
    "not a tar": gzipSync("x".repeat(2000)),
  };
  // Hard link, symbolic link, devices, folder, FIFO; PAX headers; long names, long links and sparse files of GNU.
  for (const type of "1234567xgLKSDV\0") hostile[`type ${type}`] = changed(small, 156, type);
  for (const [name, packed] of Object.entries(hostile))
    await t.rejects(read(packed), { message: "This is no backup of StatusMesh, or it is damaged." }, name);
  for (let length = 1; length < small.length - 16; length += 7)
    await t.rejects(read(small.subarray(0, length)), { message: "The backup is cut off: its end is missing." });
});

t.test("names are names: nothing is written to a file", async (t) => {
  const entries = ["../../etc/passwd", "/etc/passwd", "a", "a"].map((name) => ({ name, content: Buffer.from(name) }));
  t.same(await read(await archive(entries)), entries);
});

t.test("a gzip bomb is unpacked as far as entries are read", async (t) => {
  // 2 GiB of zeros: the end of a tar. 16 MiB are packed into 16 kB.
  const zeros = gzipSync(Buffer.alloc(16 << 20));
  let pulled = 0;
  async function* bomb() {
    for (; pulled < 128; pulled++) yield zeros;
  }
  const found: Entry[] = [];
  for await (const entry of readArchive(Readable.from(bomb()))) found.push(entry);
  t.same(found, []);
  t.ok(pulled < 128, "the rest is not read");
});
