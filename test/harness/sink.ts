import { createHmac, timingSafeEqual } from "node:crypto";
import * as fs from "node:fs";
import type { IncomingHttpHeaders } from "node:http";
import { join } from "node:path";
import { type Received as ReceivedRequest, startSink as startServer } from "@statusmesh/control-plane/testing/sink";
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
  /** Time at which the request was complete, `performance.now()` of this process. */
  readonly at: number;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly notice: ReceivedNotice;
  /** True when the signature is that of {@link Sink.secret} over exactly these bytes. */
  readonly signed: boolean;
}

export interface SinkAnswer {
  status: number;
  headers?: Record<string, string>;
}

type Answering = (path: string, notice: ReceivedNotice) => SinkAnswer | Promise<SinkAnswer>;

export interface Sink {
  readonly url: string;
  /** The signing secret for channels to this sink. */
  readonly secret: string;
  /** PEM file of the authority that signed the sink's certificate, for NODE_EXTRA_CA_CERTS. */
  readonly caFile: string;
  readonly received: readonly Received[];
  /** Notices received about a target, in the order of their arrival. */
  about(targetId: string): Received[];
  /** Decides the answers from now on; a promise holds the request until it resolves. */
  answer(how: Answering): void;
  /** Calls back at the end of each request. */
  onReceived(listener: (received: Received) => void): void;
}

/**
 * A webhook receiver over the recording sink of the control plane's tests: it parses each notice and checks its
 * signature.
 */
export async function startSink(t: Teardown): Promise<Sink> {
  const secret = "a secret of the sink";
  const received: Received[] = [];
  const listeners: ((received: Received) => void)[] = [];
  let how: Answering = () => ({ status: 200 });
  const server = await startServer(t, (request, response) => {
    const got = parsed(request, secret);
    received.push(got);
    for (const listener of listeners) listener(got);
    void Promise.resolve(how(got.path, got.notice)).then(({ status, headers }) =>
      response.writeHead(status, headers).end(),
    );
  });
  const caFile = join(tempFolder(t, "sink"), "ca.pem");
  fs.writeFileSync(caFile, server.ca);
  return {
    url: `${server.url}/hook`,
    secret,
    caFile,
    received,
    about: (targetId) => received.filter((it) => it.notice.target_id === targetId),
    answer: (next) => void (how = next),
    onReceived: (listener) => void listeners.push(listener),
  };
}

const parsed = ({ path, headers, body }: ReceivedRequest, secret: string): Received => ({
  at: performance.now(),
  path,
  headers,
  notice: JSON.parse(body.toString("utf8")) as ReceivedNotice,
  signed: isSigned(secret, headers, body),
});

/** HMAC-SHA256 over `<unix seconds>.<body>`, as documented for webhooks; computed here independently of the sender. */
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
