import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import {
  type AgentResult,
  type AssignedCheck,
  protocolVersion,
  type PullReply,
  type ResultsReply,
  type ResultsRequest,
} from "@statusmesh/shared/protocol/agent-protocol";
import type { CheckSpec } from "@statusmesh/shared/checks";
import { newId } from "@statusmesh/shared/ids";
import { phaseMs, recheckMs, slotAtOrAfter } from "@statusmesh/shared/schedule";
import type { Teardown } from "../../harness/folder.ts";

const region = "bench";
/** The real control plane holds a poll for 25 s. */
const holdMs = 5000;

export interface StubControlPlane {
  url: string;
  /** Results since the last call. */
  take(): { batches: number; results: number; byStatus: Record<string, number>; errors: string[]; totalMs: number[] };
  /** Sets the checks of the agent: on the grid, or all once at the same moment. */
  assign(specs: readonly CheckSpec[], intervalMs: number, when?: "spread" | "together"): void;
}

/** A stub of the control plane for one agent: assigns checks and acknowledges all results. */
export async function stubControlPlane(t: Teardown): Promise<StubControlPlane> {
  const nothing = () => ({
    batches: 0,
    results: 0,
    byStatus: {} as Record<string, number>,
    errors: [] as string[],
    totalMs: [] as number[],
  });
  let received = nothing();
  let assigned: AssignedCheck[] = [];
  let cursor = 1;
  let wake: () => void = () => undefined;

  const note = (results: readonly AgentResult[]): void => {
    received.batches++;
    received.results += results.length;
    for (const { status, error, total_ms } of results) {
      received.byStatus[status] = (received.byStatus[status] ?? 0) + 1;
      if (error !== null && received.errors.length < 5) received.errors.push(error);
      received.totalMs.push(total_ms ?? Number.NaN);
    }
  };
  const server: Server = createServer((request, response) => {
    void readJson(request).then(async (body) => {
      const answer = (reply: PullReply | ResultsReply): void =>
        void response.setHeader("content-type", "application/json").end(JSON.stringify(reply));
      if (request.url?.endsWith("/results") === true) {
        const { results } = body as ResultsRequest;
        note(results);
        return answer({
          stored: results.length,
          duplicates: 0,
          dropped_future: 0,
          dropped_unassigned: 0,
          dropped_off_schedule: 0,
          rechecks: [],
        });
      }
      const known = (body as { cursor: string | null }).cursor;
      if (known === String(cursor)) {
        await new Promise<void>((settle) => {
          wake = settle;
          setTimeout(settle, holdMs).unref();
        });
      }
      const full = known !== String(cursor);
      answer({
        protocol: protocolVersion,
        region,
        server_time: Date.now(),
        cursor: String(cursor),
        jitter_pct: 10,
        per_host_max_inflight: 2,
        rdap_max_inflight: 1,
        full,
        checks: full ? assigned : [],
        drop: [],
        runs: [],
        rechecks: [],
      });
    });
  });
  await new Promise<void>((settle) => server.listen(0, "127.0.0.1", settle));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    take() {
      const taken = received;
      received = nothing();
      return taken;
    },
    assign(specs, intervalMs, when = "spread") {
      const soon = Date.now() + 1000;
      assigned = specs.map((check) => {
        const id = newId();
        const next_due_at =
          when === "together" ? soon : slotAtOrAfter(soon, phaseMs(id, region, intervalMs), intervalMs);
        return {
          target_id: id,
          org_id: newId(),
          version: "1",
          interval_ms: intervalMs,
          next_due_at,
          recheck_ms: recheckMs(intervalMs),
          check,
        };
      });
      cursor++;
      wake();
    },
  };
}

async function readJson(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return JSON.parse(Buffer.concat(chunks).toString("utf8"));
}
