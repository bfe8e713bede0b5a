import type { TcpCheck } from "@statusmesh/shared/checks/tcp";
import { canonicalHost } from "@statusmesh/shared/checks/kind";
import { dial } from "@statusmesh/shared/net/dial";
import { oncePer } from "./once-per.ts";
import type { Probe } from "./probe.ts";

const hostOf = oncePer(({ host }: TcpCheck) => canonicalHost(host));

/** Up when a connection is accepted. Nothing is sent or read. */
export const tcp: Probe<TcpCheck> = {
  timeoutStatus: "down",
  async run(spec, { signal, trace, allowPrivate, lookup }) {
    const { socket } = await dial({ host: hostOf(spec), port: spec.port, allowPrivate, signal, lookup, trace });
    socket.destroy();
    return { status: "up", error: null };
  },
};
