import type { Sql } from "postgres";
import type { Log } from "../log.ts";

/** Payload of a wake-up that stands for "something may have been missed". */
const missed = "";

/**
 * Wake-ups across processes over LISTEN and NOTIFY, on one connection of its own. A notification is a hint to look, never
 * the news itself: whenever listening starts or starts again, every listener of the channel is called with {@link missed}.
 */
export interface Hub {
  /** Calls `listener` with each payload until the function that comes back is called. Channels are a small fixed set: they stay listened to. */
  on(channel: string, listener: (payload: string) => void): () => void;
  /**
   * Waits at most `ms` milliseconds for a payload that `predicate` likes (a missed one always counts). True when it
   * came, false when the time ran out or `signal` fired. Ask for it before looking at the database, so that nothing falls between.
   */
  wait(
    channel: string,
    ms: number,
    options?: { predicate?: (payload: string) => boolean; signal?: AbortSignal },
  ): Promise<boolean>;
  /** Resolves when the server has confirmed that it listens on all channels asked for so far. */
  ready(): Promise<void>;
}

/** A hub over the pool's listening connection, which reconnects by itself and ends with `sql.end()`. */
export function openHub(sql: Sql, log: Log): Hub {
  const channels = new Map<string, { listeners: Set<(payload: string) => void>; listening: Promise<void> }>();

  function channelOf(name: string) {
    const known = channels.get(name);
    if (known !== undefined) return known;
    const listeners = new Set<(payload: string) => void>();
    const tell = (payload: string) => {
      for (const listener of listeners) {
        try {
          listener(payload);
        } catch (error) {
          log.error({ channel: name, err: error }, "a listener failed");
        }
      }
    };
    // The client asks again after every loss, and calls back each time; a first refusal is only the first of those tries.
    const listening = new Promise<void>((resolve) => {
      const listen = sql.listen(name, tell, () => {
        resolve();
        tell(missed);
      });
      listen.catch((error: unknown) =>
        log.warn(
          { channel: name, reason: error instanceof Error ? error.message : String(error) },
          "cannot listen for wake-ups yet",
        ),
      );
    });
    const channel = { listeners, listening };
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
      const finish = (came: boolean) => {
        off();
        clearTimeout(timer);
        signal?.removeEventListener("abort", aborted);
        resolve(came);
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
