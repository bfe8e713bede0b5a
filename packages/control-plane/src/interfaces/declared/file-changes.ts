import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { hash } from "node:crypto";

const maxFolders = 32;
const maxEntries = 20_000;

/**
 * What changes when a file at or below a path changes, is replaced, or comes and goes; null when there is nothing at
 * the path. Links are followed: Kubernetes replaces the link `..data` of a mount, and with it every file. Asked again
 * and again, because neither that nor a network file system tells of every change.
 */
export async function fingerprintOf(path: string): Promise<string | null> {
  const seen: string[] = [];
  const visit = async (at: string, depth: number): Promise<void> => {
    if (seen.length >= maxEntries) return;
    const found = await stat(at).catch(() => null);
    if (found === null) return void seen.push(`${at} -`);
    const { ino, dev, size, mtimeMs, ctimeMs } = found;
    if (!found.isDirectory()) return void seen.push(`${at} ${dev}:${ino} ${size} ${mtimeMs} ${ctimeMs}`);
    if (depth >= maxFolders) return;
    const names = await readdir(at).catch(() => null);
    if (names === null) return void seen.push(`${at} -`);
    for (const name of names.sort()) if (!name.startsWith(".")) await visit(join(at, name), depth + 1);
  };
  if ((await stat(path).catch(() => null)) === null) return null;
  await visit(path, 0);
  return hash("sha256", seen.join("\n"));
}
