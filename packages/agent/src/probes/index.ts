import type { ProbedType, SpecOf } from "@statusmesh/shared/checks";
import { container } from "./container.ts";
import { dns } from "./dns/dns.ts";
import { domainExpiry } from "./domain-expiry.ts";
import { grpc } from "./grpc.ts";
import { exec } from "./exec/exec.ts";
import { http } from "./http/http.ts";
import { ping } from "./ping.ts";
import type { Probe } from "./probe.ts";
import { statusPage } from "./status-page/status-page.ts";
import { tcp } from "./tcp.ts";
import { tlsCert } from "./tls/tls-cert.ts";
import { websocket } from "./websocket.ts";

/** Registry of probes. A check kind without one does not compile. */
const probes: { readonly [T in ProbedType]: Probe<SpecOf<T>> } = {
  http,
  tcp,
  ping,
  dns,
  grpc,
  websocket,
  tls_cert: tlsCert,
  domain_expiry: domainExpiry,
  exec,
  status_page: statusPage,
  container,
};

/** The probe of a kind, for a spec of that kind: the registry guarantees the match. */
export function probeOf(type: ProbedType): Probe<unknown> {
  return probes[type] as Probe<unknown>;
}
