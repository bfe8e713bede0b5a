import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { type AgentResult, type AssignedCheck, protocolVersion, type PullReply, type ResultsReply, type ResultsRequest } from "@statusmesh/shared/agent-protocol";
import { newId } from "@statusmesh/shared/ids";
import { phaseMs, slotAtOrAfter } from "@statusmesh/shared/schedule";
import { hosts } from "./hosts.ts";

const region = "bench";
/** The real control plane holds a poll for 25 s. */
const holdMs = 5000;

export interface StubControlPlane {
  url: string;
  received: { batches: number; results: number; byStatus: Record<string, number>; sample: AgentResult | null };
  close(): void;
}

/** Enough of a control plane for one agent: hands out the same http checks to all who ask, and acknowledges everything. */
export async function stubControlPlane(checks: number, intervalMs: number, targetPort: number): Promise<StubControlPlane> {
  const received: StubControlPlane["received"] = { batches: 0, results: 0, byStatus: {}, sample: null };
  const assigned = Array.from({ length: checks }, (_, i) => httpCheck(intervalMs, `http://${hosts[i % hosts.length]}:${targetPort}/health?check=${i}`));
  const server: Server = createServer((request, response) => {
    void readJson(request).then((body) => {
      const answer = (reply: unknown): void => void response.setHeader("content-type", "application/json").end(JSON.stringify(reply));
      if (request.url?.endsWith("/results") === true) return answer(take(received, body as ResultsRequest));
      const full = (body as { cursor: string | null }).cursor === null;
      if (full) answer(reply(true, assigned));
      else setTimeout(() => answer(reply(false, [])), holdMs);
    });
  });
  await new Promise<void>((settle) => server.listen(0, "127.0.0.1", settle));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

function httpCheck(intervalMs: number, url: string): AssignedCheck {
  const id = newId();
  const check = {
    type: "http",
    url,
    method: "GET",
    timeout: 10_000,
    follow_redirects: true,
    max_redirects: 5,
    expected_status: { kind: "range", value: { min: 200, max: 299 } },
    expected_body_contains: null,
    headers: {},
    body: null,
    verify_tls: true,
    basic_auth: null,
    bearer_token: null,
  };
  const next_due_at = slotAtOrAfter(Date.now() + 1000, phaseMs(id, region, intervalMs), intervalMs);
  return { target_id: id, org_id: newId(), version: "1", interval_ms: intervalMs, next_due_at, check };
}

function reply(full: boolean, checks: AssignedCheck[]): PullReply {
  return { protocol: protocolVersion, region, server_time: Date.now(), cursor: "1", jitter_pct: 10, per_host_max_inflight: 2, full, checks, drop: [], runs: [] };
}

function take(received: StubControlPlane["received"], { results }: ResultsRequest): ResultsReply {
  received.batches++;
  received.results += results.length;
  received.sample = results.at(-1) ?? received.sample;
  for (const { status } of results) received.byStatus[status] = (received.byStatus[status] ?? 0) + 1;
  return { stored: results.length, duplicates: 0, dropped_future: 0, dropped_unassigned: 0 };
}

async function readJson(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return JSON.parse(Buffer.concat(chunks).toString("utf8"));
}
