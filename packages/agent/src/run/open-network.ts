import { dial } from "@statusmesh/shared/net/dial";
import { resolve } from "@statusmesh/shared/net/resolve";
import { NetworkGuard, type NetworkGuardOptions, placeOf } from "./network.ts";

interface NetworkSettings extends Pick<NetworkGuardOptions, "clock" | "log" | "canaries"> {
  /** URL of the control plane. */
  url: string;
  allowPrivateTargets: boolean;
}

/** The network guard, which dials as probes do. `changed` is called when the own network goes down or comes back. */
export function openNetwork(settings: NetworkSettings, changed: () => void): NetworkGuard {
  const { clock, log, url, canaries, allowPrivateTargets } = settings;
  return new NetworkGuard({
    clock,
    log,
    controlPlane: placeOf(url),
    canaries,
    connect: async ({ host, port }, named, signal) => {
      const { socket, address } = await dial({ host, port, allowPrivate: named || allowPrivateTargets, signal });
      socket.destroy();
      return address;
    },
    lookUp: (name) => resolve(name),
    changed,
  });
}
