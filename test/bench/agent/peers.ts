import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { generate } from "selfsigned";
import { type Teardown, tempFolder } from "../../harness/folder.ts";
import { type Child, endChild, startChild } from "../measure.ts";
import { certified } from "./hosts.ts";
import type { Measurable } from "./kinds.ts";

/** Environment that trusts {@link certificateFile}. */
export const trusting = (pemFile: string): NodeJS.ProcessEnv => ({ NODE_EXTRA_CA_CERTS: pemFile });

/** A PEM file with a key and a certificate for all of {@link certified}. */
export async function certificateFile(t: Teardown): Promise<string> {
  const { private: key, cert } = await generate([{ name: "commonName", value: "bench" }], {
    keyType: "ec",
    algorithm: "sha256",
    extensions: [{ name: "subjectAltName", altNames: certified.map((ip) => ({ type: 7, ip })) }],
  });
  const file = join(tempFolder(t, "bench"), "server.pem");
  writeFileSync(file, key + cert, { mode: 0o600 });
  return file;
}

/** Starts the checked server and returns its port. */
export async function startTarget(t: Teardown, kind: Measurable, pemFile = ""): Promise<number> {
  const { child, firstLine } = await startChild(new URL("./target.js", import.meta.url), [kind, pemFile]);
  t.teardown(() => endChild(child));
  return Number(firstLine);
}

export interface RawClient {
  readonly pid: number;
  /** Number of requests so far, and the 99th percentile of the lag since the last call, ms. */
  ask(): Promise<{ done: number; lag_p99_ms: number }>;
}

/** Starts the yardstick: a bare client of the same server. */
export async function startRaw(
  t: Teardown,
  kind: Measurable,
  port: number,
  perSecond: number,
  env: NodeJS.ProcessEnv = {},
): Promise<RawClient> {
  const raw: Child = await startChild(
    new URL("./raw.js", import.meta.url),
    [kind, String(port), String(perSecond)],
    env,
  );
  t.teardown(() => endChild(raw.child));
  return {
    pid: raw.pid,
    async ask() {
      const before = raw.lines.length;
      raw.child.stdin?.write("\n");
      while (raw.lines.length === before) await new Promise((settle) => setTimeout(settle, 1));
      return JSON.parse(raw.lines.at(-1)!) as { done: number; lag_p99_ms: number };
    },
  };
}
