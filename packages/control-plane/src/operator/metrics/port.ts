import { isLoopback, parseBind } from "@statusmesh/shared/net/address";
import { expositionType, type MetricsPort, openMetricsPort } from "@statusmesh/shared/net/metrics-port";
import type { Log } from "../../platform/log.ts";
import type { Metrics } from "./metrics.ts";

/** Serves the metrics at `GET /metrics` of `bind`. Rejects with the error of `listen`. */
export async function serveMetrics(bind: string, metrics: Metrics, log: Log): Promise<MetricsPort> {
  const address = parseBind(bind);
  const port = await openMetricsPort(address, {
    "/metrics": async () => ({ type: expositionType, text: await metrics.text() }),
  });
  log.info({ url: `${port.url}/metrics` }, "metrics can be read");
  if (!isLoopback(address.host))
    log.warn(
      { bind },
      "server.metrics_bind is not a loopback address and has no authentication: let only your monitoring reach it",
    );
  return port;
}
