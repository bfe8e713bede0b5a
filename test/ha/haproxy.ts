import * as fs from "node:fs";
import { join } from "node:path";
import type { Teardown } from "../harness/folder.ts";
import { freePort } from "../harness/processes.ts";
import { Hopeless, waitFor } from "../harness/wait.ts";
import { type Account, folderFor, startDaemon } from "./daemon.ts";
import type { Node } from "./patroni.ts";
import { programs } from "./programs.ts";

export interface Proxy {
  /** Port of the database's primary. */
  readonly database: number;
  /** Base URL of the control planes. */
  readonly url: string;
}

export interface ProxyInput {
  folder: string;
  account: Account;
  /** The configuration of infra/ha, whose addresses are replaced. */
  template: string;
  nodes: readonly Node[];
  controlPlanePorts: readonly [number, number];
}

/** Starts HAProxy with the documented configuration on loopback ports. */
export async function startProxy(t: Teardown, input: ProxyInput): Promise<Proxy> {
  const { folder, account, template, nodes, controlPlanePorts } = input;
  const [web, database] = [await freePort(), await freePort()];
  let text = fs.readFileSync(template, "utf8");
  const replace = (from: string, to: string): void => {
    if (!text.includes(from)) throw new Error(`${template} does not contain ${from}`);
    text = text.replaceAll(from, to);
  };
  replace("bind 127.0.0.1:8443", `bind 127.0.0.1:${web}`);
  replace("bind 127.0.0.1:5432", `bind 127.0.0.1:${database}`);
  for (const [n, port] of controlPlanePorts.entries()) replace(`10.0.0.${n + 1}:8080`, `127.0.0.1:${port}`);
  for (const [n, node] of nodes.entries())
    replace(`10.0.1.${n + 1}:5432 check port 8008`, `127.0.0.1:${node.port} check port ${node.apiPort}`);
  const own = folderFor(account, folder, "haproxy");
  const file = join(own, "haproxy.cfg");
  fs.writeFileSync(file, text, { mode: 0o644 });
  const daemon = startDaemon(t, {
    name: "haproxy",
    program: programs.haproxy,
    args: ["-db", "-f", file],
    folder: own,
    account,
  });
  const url = `http://127.0.0.1:${web}`;
  // 503, as there is no control plane yet.
  await waitFor("HAProxy", async () => {
    if (daemon.pid() === null) throw new Hopeless(fs.readFileSync(join(own, "haproxy.log"), "utf8"));
    return (await fetch(url)).status === 503;
  });
  return { database, url };
}
