import * as fs from "node:fs";
import { basename, dirname, join, resolve, sep } from "node:path";
import { codeOf, codeOrMessage } from "../thrown.ts";
import { maxFileBytes } from "./yaml.ts";

/** A file or folder whose text no declared file may have. */
export interface OwnFile {
  readonly path: string;
  /** Says what it is: "It is a secret of the server …" */
  readonly why: string;
}

export interface NamedFileRules {
  /** Files below these folders only, links followed. */
  readonly folders: readonly string[];
  /** What to do about a file elsewhere, for messages. */
  readonly hint?: string;
  /** Compared by device and inode, so that links and mounts give no other name to them. */
  readonly refused: readonly OwnFile[];
}

/** What is wrong with a regular file. The stat is that of the open file. */
export type RefuseFile = (realPath: string, stat: fs.BigIntStats) => string | null;

/** Of statfs(2) on Linux. */
const procMagic = 0x9fa0;

const identityOf = ({ dev, ino }: fs.BigIntStats): string => `${dev}:${ino}`;

function identityAt(path: string): string | null {
  const stat = fs.statSync(path, { bigint: true, throwIfNoEntry: false });
  return stat === undefined ? null : identityOf(stat);
}

/**
 * Refuses these files, what is below these folders, and files of /proc, which has the environment of the process. The
 * names are looked up at each call: a secret may have been replaced.
 */
export function refuseFiles(refused: readonly OwnFile[]): RefuseFile {
  return (realPath, stat) => {
    if (process.platform === "linux" && fs.statfsSync(realPath).type === procMagic)
      return "It is a file of /proc, which has the environment of processes.";
    const known = new Map<string, string>();
    for (const { path, why } of refused) {
      const identity = lookup(path);
      if (identity !== null) known.set(identity, why);
    }
    for (const at of [identityOf(stat), ...foldersAbove(realPath).map(lookup)]) {
      const why = at === null ? undefined : known.get(at);
      if (why !== undefined) return why;
    }
    return null;
  };
}

function foldersAbove(path: string): string[] {
  const folder = dirname(path);
  return folder === path ? [] : [folder, ...foldersAbove(folder)];
}

/** Null for a path that cannot be looked up: what it names cannot be read either. */
function lookup(path: string): string | null {
  try {
    return identityAt(path);
  } catch {
    return null;
  }
}

/**
 * The text of a small UTF-8 file, or what is wrong with it. What is judged is what is read: the file is opened by its
 * real path, and has to be there still.
 */
export function readText(file: string, refuse: RefuseFile = () => null): string | { problem: string } {
  let handle: number | undefined;
  try {
    const real = fs.realpathSync(file);
    // Opening a device can have effects, and a pipe without a writer would block.
    if (!fs.statSync(real).isFile()) return { problem: "It is no file." };
    handle = fs.openSync(real, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK | fs.constants.O_NOFOLLOW);
    const stat = fs.fstatSync(handle, { bigint: true });
    if (!stat.isFile()) return { problem: "It is no file." };
    const why = refuse(real, stat);
    if (why !== null) return { problem: why };
    if (fs.realpathSync(file) !== real || identityAt(real) !== identityOf(stat))
      return { problem: "It was replaced while it was read." };
    if (stat.size > maxFileBytes) return { problem: "A file has at most 1 MiB." };
    return new TextDecoder("utf-8", { fatal: true }).decode(fs.readFileSync(handle).subarray(0, maxFileBytes + 1));
  } catch (error) {
    if (codeOf(error) === "ERR_ENCODING_INVALID_ENCODED_DATA") return { problem: "It is no UTF-8." };
    return { problem: `It cannot be read (${codeOrMessage(error)}).` };
  } finally {
    if (handle !== undefined) fs.closeSync(handle);
  }
}

/** A reader of what `${file:path}` names, relative to the file that names it. Throws with the reason in words. */
export function namedFiles({ folders, hint = "", refused }: NamedFileRules) {
  const refuse = refuseFiles(refused);
  const outside = `It is not below ${folders.join(" or ")}.${hint}`;
  return (path: string, namedIn: string): string => {
    const isBelow = below(folders);
    const named = resolve(dirname(namedIn), path);
    // Outside of the folders nothing is said about what exists.
    if (!isBelow(realPathOf(named) ?? join(realPathOf(dirname(named)) ?? dirname(named), basename(named))))
      throw new Error(outside);
    const text = readText(named, (real, stat) => (isBelow(real) ? refuse(real, stat) : outside));
    if (typeof text === "string") return text;
    throw new Error(text.problem);
  };
}

/** Returns whether a real path is below one of these folders, links followed. */
export function below(folders: readonly string[]): (realPath: string) => boolean {
  const roots = folders.map((folder) => realPathOf(folder) ?? resolve(folder));
  return (file) => roots.some((root) => file.startsWith(root.endsWith(sep) ? root : root + sep));
}

function realPathOf(path: string): string | null {
  try {
    return fs.realpathSync(path);
  } catch {
    return null;
  }
}
