import { execFile } from "node:child_process";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { commandHere } from "sm-agent/testing";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { nagiosPlugins, requires } from "../harness/requires.ts";

const program = join(import.meta.dirname, "../../../packages/agent/bin/sm-agent.js");

/* Exec checks with plugins of Debian's monitoring-plugins-basic, as sm-agent runs them. */

t.test("check_disk, check_load and check_http give state, words and performance data", async (t) => {
  if (!(await requires(t, "nagios"))) return;
  const server = createServer((_request, response) => response.end("hello"));
  await new Promise<void>((settle) => server.listen(0, "127.0.0.1", settle));
  t.teardown(() => server.close());
  const port = String((server.address() as AddressInfo).port);
  const commands: Record<string, string[]> = {
    disk: ["check_disk", "-w", "0%", "-c", "0%", "-p", "/"],
    disk_full: ["check_disk", "-w", "100%", "-c", "0%", "-p", "/"],
    load: ["check_load", "-w", "1000,1000,1000", "-c", "1000,1000,1000"],
    http: ["check_http", "-I", "127.0.0.1", "-p", port, "-s", "hello"],
    http_wrong: ["check_http", "-I", "127.0.0.1", "-p", port, "-s", "goodbye"],
    unknown: ["check_dummy", "3", "no such thing"],
  };
  const file = join(t.testdir({}), "commands.toml");
  const toml = Object.entries(commands).map(
    ([key, [plugin, ...args]]) => `[${key}]\nargv = ${JSON.stringify([join(nagiosPlugins, plugin!), ...args])}\n`,
  );
  writeFileSync(file, toml.join("\n"), { mode: 0o600 });
  const words = (key: string) => ["check", "exec", key, "--commands", file, "--json"];
  const check = async (key: string): Promise<unknown> => JSON.parse((await commandHere(words(key))).stdout);
  const { stdout } = await promisify(execFile)(process.execPath, [program, ...words("disk")]);
  matchObject(t, JSON.parse(stdout), {
    result: { status: "up", error: null, details: { perfdata: [{ label: "/", value: Number, min: 0, max: Number }] } },
  });
  matchObject(t, await check("disk_full"), {
    result: { status: "degraded", error: /^DISK WARNING - free space: \/ / },
  });
  matchObject(t, await check("load"), {
    result: { status: "up", details: { perfdata: [{ label: "load1" }, { label: "load5" }, { label: "load15" }] } },
  });
  matchObject(t, await check("http"), {
    result: {
      status: "up",
      details: {
        perfdata: [
          { label: "time", uom: "s", min: 0 },
          { label: "size", uom: "B" },
        ],
      },
    },
  });
  matchObject(t, await check("http_wrong"), {
    result: { status: "down", error: /^HTTP CRITICAL: .* string 'goodbye' not found/ },
  });
  matchObject(t, await check("unknown"), {
    result: { status: "error", error: "UNKNOWN: no such thing (exit code 3)" },
  });
});
