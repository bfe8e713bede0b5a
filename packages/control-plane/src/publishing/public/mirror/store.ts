import { mkdir, readFile, rename, rm, rmdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { codeOf, codeOrMessage } from "@statusmesh/shared/thrown";
import type { MirrorTarget } from "../../../config/mirror-keys.ts";
import type { System } from "../../../platform/context.ts";
import { createOutbound } from "../../../platform/outbound/client.ts";
import { type S3Keys, signed } from "./signature-v4.ts";

/** What a file server needs to know of a file. */
export interface FileHead {
  type: string;
  /** True where the address is of this content for ever. */
  immutable: boolean;
}

/** Where the files of a copy are. Paths are relative and have forward slashes. Each call throws what is wrong. */
export interface Store {
  /** Replaces a file: readers get the old content or the new one. */
  put(path: string, content: Buffer, head: FileHead): Promise<void>;
  /** The content of a file; null for none. */
  get(path: string): Promise<Buffer | null>;
  /** Removes a file that may be gone already. */
  remove(path: string): Promise<void>;
}

/** Largest file that a check reads back, bytes. */
const maxFileBytes = 33_554_432;
const deadlineMs = 20_000;

/** The store of a target. Both kinds are chosen by the operator, so no guard applies to their addresses. */
export const storeOf = async (system: System, { s3, directory }: MirrorTarget, signal?: AbortSignal): Promise<Store> =>
  s3 === undefined ? folderStore(directory!) : bucketStore(system, s3, await secretOf(s3), signal);

async function secretOf({ secret_access_key_file: file }: NonNullable<MirrorTarget["s3"]>): Promise<string> {
  try {
    return (await readFile(file, "utf8")).trim();
  } catch (error) {
    throw new Error(`secret_access_key_file ${file} cannot be read (${codeOrMessage(error)})`, { cause: error });
  }
}

/** A folder. A file is written beside its place and renamed, so that no reader gets half of it. */
function folderStore(folder: string): Store {
  const isAbsent = (error: unknown) => codeOf(error) === "ENOENT";
  return {
    async put(path, content) {
      const file = join(folder, path);
      const part = `${file}.part`;
      await mkdir(dirname(file), { recursive: true });
      await writeFile(part, content);
      await rename(part, file);
    },
    async get(path) {
      return await readFile(join(folder, path)).catch((error: unknown) => {
        if (isAbsent(error)) return null;
        throw error;
      });
    },
    async remove(path) {
      const file = join(folder, path);
      await rm(file, { force: true });
      // Folders that are empty now. The first one that is not ends it.
      for (let at = dirname(path); at !== "."; at = dirname(at))
        if (
          await rmdir(join(folder, at)).then(
            () => false,
            () => true,
          )
        )
          break;
    },
  };
}

/** A bucket, with the bucket in the path, which every S3 server takes. */
function bucketStore(
  system: System,
  { endpoint, bucket, prefix = "", region = "us-east-1", access_key_id: accessKeyId }: NonNullable<MirrorTarget["s3"]>,
  secretAccessKey: string,
  signal: AbortSignal | undefined,
): Store {
  const keys: S3Keys = { accessKeyId, secretAccessKey, region };
  const outbound = createOutbound({
    allowPrivate: true,
    allowHttp: true,
    context: system.authorities,
    clock: system.clock,
    deadlineMs,
    maxReplyBytes: maxFileBytes,
    signal,
  });
  const base = `${endpoint}/${bucket}${prefix === "" ? "" : `/${prefix}`}`;
  const send = async (method: "GET" | "PUT" | "DELETE", path: string, body: Buffer, headers = {}) => {
    const url = new URL(`${base}/${path}`);
    const reply = await outbound.send({
      method,
      url: url.href,
      headers: signed({ method, url, headers, body }, keys, system.clock.now()),
      ...(method === "PUT" ? { body } : {}),
    });
    const { status } = reply;
    if (status >= 300 && !(method !== "PUT" && status === 404))
      throw new Error(`${method} ${path}: ${url.host} answered ${status}${reasonOf(reply.text)}`);
    return reply;
  };
  const none = Buffer.alloc(0);
  return {
    async put(path, content, { type, immutable }) {
      const cache = immutable ? "public, max-age=31536000, immutable" : "no-cache";
      await send("PUT", path, content, { "content-type": type, "cache-control": cache });
    },
    async get(path) {
      const { status, bytes } = await send("GET", path, none);
      return status === 404 ? null : bytes!;
    },
    async remove(path) {
      await send("DELETE", path, none);
    },
  };
}

/** The code of an S3 error, as ` SignatureDoesNotMatch`. */
function reasonOf(xml: string): string {
  const code = /<Code>(\w{1,60})<\/Code>/.exec(xml)?.[1];
  return code === undefined ? "" : ` ${code}`;
}
