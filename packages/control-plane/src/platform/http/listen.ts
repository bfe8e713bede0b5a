import { createServer, type IncomingMessage, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { AppError } from "@statusmesh/shared/errors";
import { parseBind } from "@statusmesh/shared/net/address";
import { minuteMs } from "@statusmesh/shared/time";
import { type Config, publicUrlOf } from "../../config/config.ts";
import { type ConnectionLimits, readerPace, serveGuarded } from "./limits/connections.ts";
import { isPublicPath, proxiesOf } from "./limits/per-ip.ts";
import { refuse } from "./reply/raw-answer.ts";
import { StartupError } from "../../config/startup-error.ts";

export interface Listening {
  server: Server;
  url: string;
  /** The request listener; 503 until the application is up. */
  answer: { with: RequestListener };
}

/** Timeouts of the headers and of the whole request. */
const headersMs = 20_000;
const requestMs = minuteMs;
/**
 * An idle connection closes after this time: longer than the slowest reply, that of an on-demand run (65 s), and than
 * proxies keep idle connections (60 s). With Node's 5 s a proxy or client sent requests into connections that had just
 * been closed.
 */
const idleMs = 75_000;

/** Binds the port of `server.bind`. Requests are answered 503 until `answer.with` is set. Throws StartupError. */
export async function listen(config: Config): Promise<Listening> {
  const { host, port } = parseBind(config.server.bind);
  const starting = new AppError("SERVICE_STARTING", "The service is starting. Try again in a second.", {
    retryAfterSecs: 1,
  });
  const answer: Listening["answer"] = { with: (_, response) => refuse(response, starting) };
  // The application refuses a request without Host, in the envelope.
  const server = createServer({ requireHostHeader: false, connectionsCheckingInterval: 5_000 });
  server.headersTimeout = headersMs;
  server.requestTimeout = requestMs;
  server.timeout = idleMs;
  server.keepAliveTimeout = idleMs;
  serveGuarded(
    server,
    {
      max: config.server.max_connections,
      perAddress: config.server.max_connections_per_address,
      proxies: proxiesOf(config),
      classOf: classOfRequest(config),
      ...readerPace,
    },
    () => answer.with,
  );
  await new Promise<void>((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) =>
      reject(cannotListen(error, config.server.bind, "server.bind")),
    );
    server.listen(port, host, resolve);
  });
  return { server, answer, url: publicUrlOf({ host, port: (server.address() as AddressInfo).port }) };
}

/** Agents by their interface, visitors by the public paths and the hosts of pages, everybody else is `api`. */
function classOfRequest({ server, auth, mcp }: Config): ConnectionLimits["classOf"] {
  const console = new Set([server.public_url, auth.public_base_url, mcp.resource_uri || server.public_url].map(hostOf));
  return ({ url = "/", headers: { host = "" } }: IncomingMessage) => {
    const path = url.split("?", 1)[0]!;
    if (path.startsWith("/api/agent/")) return "agents";
    if (isPublicPath(path) || /^\/(?:hooks|hb|ping|api\/push)\//.test(path)) return "visitors";
    return path.startsWith("/api/") || console.has(host.toLowerCase()) ? "api" : "visitors";
  };
}

const hostOf = (origin: string): string => new URL(origin).host;

export function cannotListen(error: NodeJS.ErrnoException, bind: string, key: string): StartupError {
  const setting = `${key} (SM_${key.replace(".", "__").toUpperCase()})`;
  if (error.code === "EADDRINUSE")
    return new StartupError(`Something already listens on ${bind}: stop it, or set ${setting} to another address.`, {
      cause: error,
      // The process that a restart replaces may still hold the port.
      temporary: true,
    });
  const hint =
    error.code === "EACCES"
      ? `This user may not listen on ${bind}: ports below 1024 need rights. Set ${setting} to a higher port.`
      : `Cannot listen on ${bind} (${error.code ?? error.message}): set ${setting} to an address of this machine.`;
  return new StartupError(hint, { cause: error });
}
