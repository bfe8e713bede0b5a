import type { Sql } from "postgres";
import { messageOf } from "@statusmesh/shared/thrown";
import type { Log } from "../process/log.ts";

/** Payload for "a notification may have been missed". */
const missed = "";

/**
 * Notifications between processes over LISTEN and NOTIFY, on a separate connection. A notification is a hint to read
 * the database: each time listening starts again, every listener of the channel is called with {@link missed}.
 */
export interface Hub {
  /** Calls `listener` with each payload, until the returned function is called. LISTEN stays: channels are few. */
  on(channel: string, listener: (payload: string) => void): () => void;
  /**
   * Waits at most `ms` milliseconds for a payload that `predicate` accepts; a missed one always counts. Returns true
   * for a payload, false after the time or when `signal` fires. Call it before reading the database, so that no change
   * is lost in between.
   */
  wait(
    channel: string,
    ms: number,
    options?: { predicate?: (payload: string) => boolean; signal?: AbortSignal },
  ): Promise<boolean>;
  /** Resolves when the server has confirmed LISTEN for all channels so far. */
  ready(): Promise<void>;
}

interface Channel {
  listeners: Set<(payload: string) => void>;
  /** Resolves when the server has confirmed LISTEN. */
  listening: Promise<void>;
}

function openChannel(sql: Sql, log: Log, name: string): Channel {
  const listeners = new Set<(payload: string) => void>();
  const publish = (payload: string) => {
    for (const listener of listeners) {
      try {
        listener(payload);
      } catch (error) {
        log.error({ channel: name, err: error }, "a listener failed");
      }
    }
  };
  // The client repeats LISTEN after each loss, and calls back each time. A rejection is its first attempt only.
  const listening = new Promise<void>((resolve) => {
    const listen = sql.listen(name, publish, () => {
      resolve();
      publish(missed);
    });
    listen.catch((error: unknown) =>
      log.warn({ channel: name, reason: messageOf(error) }, "cannot listen for notifications yet"),
    );
  });
  return { listeners, listening };
}

/** Opens a hub on the pool's listening connection, which reconnects by itself and ends with `sql.end()`. */
export function openHub(sql: Sql, log: Log): Hub {
  const channels = new Map<string, Channel>();

  function channelOf(name: string): Channel {
    const known = channels.get(name);
    if (known !== undefined) return known;
    const channel = openChannel(sql, log, name);
    channels.set(name, channel);
    return channel;
  }

  function on(channel: string, listener: (payload: string) => void): () => void {
    const { listeners } = channelOf(channel);
    const entry = (payload: string) => listener(payload);
    listeners.add(entry);
    return () => void listeners.delete(entry);
  }

  function wait(
    channel: string,
    ms: number,
    { predicate, signal }: { predicate?: (payload: string) => boolean; signal?: AbortSignal } = {},
  ): Promise<boolean> {
    return new Promise((resolve) => {
      if (signal?.aborted) return resolve(false);
      const finish = (received: boolean) => {
        off();
        clearTimeout(timer);
        signal?.removeEventListener("abort", aborted);
        resolve(received);
      };
      const aborted = () => finish(false);
      const timer = setTimeout(aborted, ms);
      signal?.addEventListener("abort", aborted, { once: true });
      const off = on(channel, (payload) => {
        if (payload === missed || predicate === undefined || predicate(payload)) finish(true);
      });
    });
  }

  return {
    on,
    wait,
    ready: async () => void (await Promise.all([...channels.values()].map(({ listening }) => listening))),
  };
}
