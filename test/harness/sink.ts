import { createHmac, timingSafeEqual } from "node:crypto";
import * as fs from "node:fs";
import type { IncomingHttpHeaders } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { generate } from "selfsigned";
import { type Teardown, tempFolder } from "./folder.ts";

/** A notice as a webhook receives it (decisions, Deliveries). */
export interface ReceivedNotice {
  delivery_id: string;
  incident_id: string;
  target_id: string;
  monitor_name: string;
  reason: string;
  severity: string;
  urgency: string;
  started_at: string;
  ended_at: string | null;
  error_sample: string | null;
  regions_down: string[];
  regions_up: string[];
  url: string;
}

export interface Received {
  /** When the request was complete, `performance.now()` of this process. */
  readonly at: number;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly notice: ReceivedNotice;
  /** Whether the signature is that of {@link Sink.secret} over exactly these bytes. */
  readonly signed: boolean;
}

/** What a request is answered with. */
export interface SinkAnswer {
  status: number;
  headers?: Record<string, string>;
}

type Answering = (path: string, notice: ReceivedNotice) => SinkAnswer | Promise<SinkAnswer>;

export interface Sink {
  readonly url: string;
  /** The secret that channels to this sink are to sign with. */
  readonly secret: string;
  /** PEM file of the authority that signed the sink's certificate, for NODE_EXTRA_CA_CERTS. */
  readonly caFile: string;
  readonly received: readonly Received[];
  /** Notices received about a target, in the order of their arrival. */
  about(targetId: string): Received[];
  /** Decides the answers from now on; a promise holds the request until it is kept. */
  answer(how: Answering): void;
  /** Calls back for each request, at its end. */
  onReceived(listener: (received: Received) => void): void;
}

/** A receiver of webhooks: https on loopback under an authority of its own, which keeps what it gets. */
export async function startSink(t: Teardown): Promise<Sink> {
  const { authority, key, cert } = await certificates();
  const caFile = join(tempFolder(t, "sink"), "ca.pem");
  fs.writeFileSync(caFile, authority);
  const secret = "a secret of the sink";
  const received: Received[] = [];
  const listeners: ((received: Received) => void)[] = [];
  let how: Answering = () => ({ status: 200 });

  const server = createServer({ key, cert }, (request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const body = Buffer.concat(chunks);
      const path = request.url ?? "";
      const notice = JSON.parse(body.toString("utf8")) as ReceivedNotice;
      const got: Received = {
        at: performance.now(),
        path,
        headers: request.headers,
        notice,
        signed: isSigned(secret, request.headers, body),
      };
      received.push(got);
      for (const listener of listeners) listener(got);
      void Promise.resolve(how(path, notice)).then(({ status, headers }) => response.writeHead(status, headers).end());
    });
  });
  server.on("tlsClientError", () => undefined);
  // A sender that is killed while it waits.
  server.on("clientError", (_error, socket) => socket.destroy());
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  return {
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}/hook`,
    secret,
    caFile,
    received,
    about: (targetId) => received.filter((it) => it.notice.target_id === targetId),
    answer: (next) => void (how = next),
    onReceived: (listener) => void listeners.push(listener),
  };
}

/** HMAC-SHA256 over `<unix seconds>.<body>`, as the specification of the webhook has it; worked out here a second time on purpose. */
function isSigned(secret: string, headers: IncomingHttpHeaders, body: Buffer): boolean {
  const timestamp = String(headers["x-service-timestamp"] ?? "");
  const given = Buffer.from(String(headers["x-service-signature"] ?? ""));
  const wanted = Buffer.from(
    `sha256=${createHmac("sha256", secret).update(`${timestamp}.`).update(body).digest("hex")}`,
  );
  return (
    given.length === wanted.length &&
    timingSafeEqual(given, wanted) &&
    Math.abs(Date.now() / 1000 - Number(timestamp)) < 300
  );
}

async function certificates(): Promise<{ authority: string; key: string; cert: string }> {
  const shared = { keyType: "ec", algorithm: "sha256" } as const;
  const ca = await generate([{ name: "commonName", value: "Authority of the tests" }], {
    ...shared,
    extensions: [
      { name: "basicConstraints", cA: true, critical: true },
      { name: "keyUsage", keyCertSign: true, critical: true },
    ],
  });
  const own = await generate([{ name: "commonName", value: "127.0.0.1" }], {
    ...shared,
    extensions: [{ name: "subjectAltName", altNames: [{ type: 7, ip: "127.0.0.1" }] }],
    ca: { key: ca.private, cert: ca.cert },
  });
  return { authority: ca.cert, key: own.private, cert: own.cert };
}
