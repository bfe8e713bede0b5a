import type { Context } from "koa";
import { PassThrough } from "node:stream";
import { AppError } from "@statusmesh/shared/errors";
import { liveResourceTokens } from "../../../access/auth/tokens/service.ts";
import type { System } from "../../../platform/context.ts";
import type { Hub } from "../../../platform/db/notify.ts";
import { becomeStream } from "../../../platform/http/limits/connections.ts";
import type { Caller } from "./callers.ts";
import { RpcRefusal, rpcCodes } from "../refusals.ts";
import { selectLive } from "./queries.ts";

/** Interval of comments on an idle stream: shorter than the idle timeouts of servers and proxies. */
export const commentMs = 15_000;
const comment = ": keepalive\n\n";
/** Interval of looking at tokens, memberships and sessions: a stream ends within 5 s of its access. */
const accessMs = 3_000;
/** Event streams of one session; the next one ends the oldest, which a lost connection may have left behind. */
const maxPerSession = 4;
/** Event streams and waiting calls of one user, over all tokens and clients. */
const maxPerUser = 32;

/** Event streams of this process: of GET /mcp, which carry no messages, and of calls that wait for an answer. */
export interface Streams {
  /** The stream of a GET. Throws when the user or the service has too many. */
  open(http: Context, caller: Caller, sessionId: string): PassThrough;
  /** Counts the stream of a call until its connection closes. The signal fires then, and when the access ends. */
  hold(http: Context, caller: Caller, sessionId: string): AbortSignal;
}

interface Entry {
  readonly sessionId: string;
  readonly tokenId: string;
  readonly userId: string;
  /** True for the stream of a GET. */
  readonly idle: boolean;
  end(): void;
}

/** One timer for all streams, and two queries per interval: a stream holds no connection of the database. */
export function openStreams({ sql, clock, log, config }: System, hub: Hub, draining: AbortSignal): Streams {
  const entries = new Set<Entry>();

  const endWhere = (isOver: (entry: Entry) => boolean): void => {
    for (const entry of entries) if (isOver(entry)) entry.end();
  };
  const endWithoutAccess = async (): Promise<void> => {
    const known = [...entries];
    if (known.length === 0) return;
    const now = new Date(clock.now());
    const [sessions, tokens] = await Promise.all([
      selectLive(sql, [...new Set(known.map(({ sessionId }) => sessionId))], now),
      liveResourceTokens({ sql, clock }, [...new Set(known.map(({ tokenId }) => tokenId))], config.mcp.resource_uri),
    ]);
    const live = new Set([...sessions, ...tokens]);
    for (const entry of known) if (!live.has(entry.sessionId) || !live.has(entry.tokenId)) entry.end();
  };
  let checking = false;
  const check = (): void => {
    if (checking) return;
    checking = true;
    void endWithoutAccess()
      .catch((error: unknown) => log.debug({ reason: String(error) }, "MCP streams could not be checked"))
      .finally(() => (checking = false));
  };
  const timer = setInterval(check, accessMs).unref();
  // An empty payload: a notification may have been missed.
  hub.on("sm_mcp", (payload) => (payload === "" ? check() : endWhere(({ sessionId }) => sessionId === payload)));
  draining.addEventListener("abort", () => {
    clearInterval(timer);
    endWhere(() => true);
  });

  /** Adds an entry, with a place among the connections. Throws 429 and 503. */
  const add = (http: Context, entry: Entry): void => {
    if ([...entries].filter(({ userId }) => userId === entry.userId).length >= maxPerUser)
      throw new RpcRefusal(429, rpcCodes.server, `This user has ${maxPerUser} open streams and calls: close some.`, {
        headers: { "Retry-After": "15" },
      });
    if (!becomeStream(http.req.socket))
      throw new AppError("TOO_MANY_CONNECTIONS", "There are too many open event streams. Try again in a moment.", {
        retryAfterSecs: 15,
      });
    // The client may have gone during the queries; then there is no further event.
    if (http.res.closed) return entry.end();
    entries.add(entry);
    http.res.once("close", () => {
      entries.delete(entry);
      entry.end();
    });
  };
  const ids = ({ tokenId, owner }: Caller, sessionId: string) => ({ sessionId, tokenId, userId: owner.userId });

  return {
    open(http, caller, sessionId) {
      const mine = [...entries].filter((entry) => entry.idle && entry.sessionId === sessionId);
      for (const entry of mine.slice(0, Math.max(0, mine.length + 1 - maxPerSession))) {
        entries.delete(entry);
        entry.end();
      }
      const stream = new PassThrough();
      // Sends the headers.
      stream.write(": open\n\n");
      const comments = setInterval(() => stream.write(comment), commentMs).unref();
      const end = (): void => {
        clearInterval(comments);
        stream.end();
      };
      try {
        add(http, { ...ids(caller, sessionId), idle: true, end });
      } catch (error) {
        end();
        throw error;
      }
      return stream;
    },
    hold(http, caller, sessionId) {
      const over = new AbortController();
      add(http, { ...ids(caller, sessionId), idle: false, end: () => over.abort() });
      return over.signal;
    },
  };
}
