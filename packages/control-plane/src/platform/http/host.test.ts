import type { Context } from "koa";
import t from "tap";
import { isAtHost } from "./page-host.ts";

const at = (origin: string, host: string): boolean => isAtHost({ get: () => host } as unknown as Context, origin);

t.test("a Host header names the host of an origin in one spelling, with or without the default port", async (t) => {
  for (const host of ["127.0.0.1", "127.0.0.1:80"]) t.ok(at("http://127.0.0.1", host), host);
  const sameToParsers = ["127.1", "0x7f.1", "2130706433", "0177.0.0.1", "127.0.0.1.", "127.0.0.1/x", "u@127.0.0.1"];
  for (const host of [...sameToParsers, "127.0.0.1:080", "127.0.0.1:443", "127.0.0.1:", "", " 127.0.0.1"])
    t.notOk(at("http://127.0.0.1", host), host);
  t.ok(at("https://mcp.example.org:8443", "MCP.example.org:8443"));
  t.notOk(at("https://mcp.example.org:8443", "mcp.example.org"), "another port is part of the host");
  t.ok(at("http://[::1]:3000", "[::1]:3000"));
  t.notOk(at("http://[::1]:3000", "[0:0:0:0:0:0:0:1]:3000"));
});
