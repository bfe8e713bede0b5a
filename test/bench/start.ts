import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { cpuSeconds, cpuSecondsOfAll, type Measured, rounded } from "./measure.ts";
import { percentile } from "./scope.ts";

const root = join(import.meta.dirname, "../../..");
const runs = 20;
/** CPU time of a start as a multiple of that of Node.js alone; as one file of 1 MB it was 1.95. */
const limit = 1.4;

/** What `smctl` takes to start, as it is published, beside `node -e 0` in turn; other programs are shown with it. */
export async function run(): Promise<Measured> {
  const { packCli } = (await import(pathToFileURL(join(root, "infra/scripts/pack-cli.mjs")).href)) as {
    packCli(): Promise<string>;
  };
  await packCli();
  const smctl = join(root, ".build/smctl/bin/smctl.js");
  const commands: Record<string, readonly string[]> = {
    node: ["-e", "0"],
    version: [smctl, "--version"],
    planHelp: [smctl, "plan", "--help"],
    list: [smctl, "list", "--url", "http://127.0.0.1:9", "--token", "none"],
    agentVersion: [join(root, "packages/agent/bin/sm-agent.js"), "--version"],
    serverVersion: [join(root, "packages/control-plane/bin/statusmesh.js"), "--version"],
  };
  const spent: Record<string, { ms: number[]; cpu: number }> = {};
  for (let at = -1; at < runs; at++)
    for (const [name, args] of Object.entries(commands)) {
      const [began, cpu] = [performance.now(), cpuSecondsOfAll([process.pid]) - cpuSeconds(process.pid)];
      spawnSync(process.execPath, args, { stdio: "ignore" });
      // The first run fills the caches of the machine.
      if (at < 0) continue;
      const sums = (spent[name] ??= { ms: [], cpu: 0 });
      sums.ms.push(performance.now() - began);
      sums.cpu += cpuSecondsOfAll([process.pid]) - cpuSeconds(process.pid) - cpu;
    }
  const value = Math.max(spent["version"]!.cpu, spent["planHelp"]!.cpu) / spent["node"]!.cpu;
  const figures = Object.fromEntries(
    Object.entries(spent).flatMap(([name, { ms, cpu }]) => [
      [`${name}Ms`, rounded(percentile(ms, 0.5), 0)],
      [`${name}CpuMs`, rounded((cpu / runs) * 1000, 0)],
    ]),
  );
  return { name: "start", value: rounded(value), unit: "times node -e 0", limit, ratio: value / limit, ...figures };
}
