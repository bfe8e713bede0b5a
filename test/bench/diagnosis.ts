import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { type Measured, rounded } from "./measure.ts";

const root = join(import.meta.dirname, "../../..");
const calls = 20_000;
/** CPU time that the diagnosis may add to a failed run, microseconds. */
const limitUs = 50;

interface Received {
  response: { status: number; fields: [string, string][] };
  body: { start: Buffer };
}

const headers = (count: number): [string, string][] =>
  Array.from({ length: count }, (_, n) => [`X-Header-${n}`, "v".repeat(60)]);

/** Answers that no trait recognises, so that all of them are tried, beside the beginning of one that one does. */
const answers: Readonly<Record<string, Received>> = {
  plain: { response: { status: 404, fields: headers(8) }, body: { start: Buffer.from("not found") } },
  page: { response: { status: 403, fields: headers(40) }, body: { start: Buffer.alloc(1024, "<p>forbidden</p>") } },
  hostile: { response: { status: 502, fields: headers(5000) }, body: { start: Buffer.alloc(1024, "<center>") } },
  challenge: {
    response: { status: 403, fields: [...headers(20), ["cf-mitigated", "challenge"]] },
    body: { start: Buffer.alloc(1024, "<p>") },
  },
};

/** CPU time of the diagnosis of one failed run, by answer. `value` is the dearest. A run that is up has none. */
export async function run(): Promise<Measured> {
  const { responseDiagnosis } = (await import(
    pathToFileURL(join(root, "packages/agent/dist/diagnosis/response.js")).href
  )) as { responseDiagnosis(received: Received): string | null };
  const cost = (received: Received): number => {
    for (let at = 0; at < calls / 10; at++) responseDiagnosis(received);
    const before = process.cpuUsage();
    for (let at = 0; at < calls; at++) responseDiagnosis(received);
    const { user, system } = process.cpuUsage(before);
    return rounded((user + system) / calls);
  };
  const figures = Object.fromEntries(Object.entries(answers).map(([name, received]) => [`${name}_us`, cost(received)]));
  const value = Math.max(...Object.values(figures));
  return {
    name: "diagnosis",
    value,
    unit: "us of CPU a failed run",
    limit: limitUs,
    ratio: value / limitUs,
    ...figures,
  };
}
