import { setTimeout as sleep } from "node:timers/promises";

/** Waits for so many ms, or until the signal fires. */
export async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  await sleep(ms, undefined, signal && { signal }).catch(() => undefined);
}
