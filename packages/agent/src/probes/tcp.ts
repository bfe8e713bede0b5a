import type { TcpCheck } from "@statusmesh/shared/checks/tcp";
import { canonicalHost } from "@statusmesh/shared/checks/kind";
import { dial } from "@statusmesh/shared/net/dial";
import type { Probe } from "./probe.ts";

/** Up when a connection is accepted. Nothing is sent or read. */
export const tcp: Probe<TcpCheck> = {
  timeoutStatus: "down",
  async run(spec, { signal, trace, allowPrivate, lookup }) {
    const { socket } = await dial({ host: canonicalHost(spec.host), port: spec.port, allowPrivate, signal, lookup, trace });
    socket.destroy();
    return { status: "up", error: null };
  },
};
