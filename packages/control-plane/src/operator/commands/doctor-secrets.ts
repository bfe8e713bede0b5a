import type { System } from "../../platform/context.ts";
import type { ReadBatch } from "../../platform/crypto/opening.ts";
import { ownCommand } from "../../platform/program.ts";
import { unreadableChannels } from "../../alerting/channels/config/service.ts";
import { unreadablePushKeys } from "../../alerting/channels/devices/service.ts";
import { unreadableSubscribers } from "../../publishing/subscribers/service.ts";
import { unreadableTokens } from "../../monitoring/heartbeats/service.ts";
import { unreadableKeys } from "../../monitoring/certificates/service.ts";
import { unreadableTargets } from "../../monitoring/targets/stored/service.ts";

/** Rows per read: some megabytes. */
const secretsBatch = 500;

/** What holds secrets, with the domain's count of unreadable ones. */
const holders = [
  ["monitor", unreadableTargets],
  ["client certificate", unreadableKeys],
  ["heartbeat", unreadableTokens],
  ["channel", unreadableChannels],
  ["push key", unreadablePushKeys],
  ["webhook subscriber", unreadableSubscribers],
] as const;

export const listed = new Intl.ListFormat("en-GB");

/** Counts the stored secrets: how many there are, how many no configured key opens, and both in words. */
export async function countSecrets(
  system: System,
): Promise<{ unreadable: number; pushKeys: number; seenWords: string; unreadableWords: string }> {
  const found: { noun: string; seen: number; unreadable: number }[] = [];
  for (const [noun, look] of holders) found.push({ noun, ...(await tally(system, look)) });
  return {
    unreadable: found.reduce((sum, { unreadable }) => sum + unreadable, 0),
    pushKeys: found.find(({ noun }) => noun === "push key")?.unreadable ?? 0,
    seenWords: listed.format(found.map(({ noun, seen }) => count(seen, noun))),
    unreadableWords: listed.format(
      found.filter(({ unreadable }) => unreadable > 0).map(({ noun, unreadable }) => count(unreadable, noun)),
    ),
  };
}

export async function secrets(system: System): Promise<string> {
  const { unreadable, pushKeys, seenWords, unreadableWords } = await countSecrets(system);
  if (unreadable > 0)
    throw new Error(
      `the secrets of ${unreadableWords} cannot be opened: set the key that they were sealed under ` +
        `as security.credentials_kek_previous_base64 and run ${ownCommand("rotate-kek")}, or give them new ` +
        `secrets${pushKeys === 0 ? "" : "; without that key, devices must be registered anew in their browsers"}`,
    );
  return `those of ${seenWords} can be opened`;
}

async function tally(system: System, look: typeof unreadableTargets): Promise<{ seen: number; unreadable: number }> {
  let [seen, unreadable] = [0, 0];
  for (let after: string | null = null, more = true; more;) {
    const batch: ReadBatch = await look(system, after, secretsBatch);
    seen += batch.seen;
    unreadable += batch.unreadable;
    after = batch.last;
    more = after !== null;
  }
  return { seen, unreadable };
}

export const count = (n: number, thing: string): string => `${n} ${thing}${n === 1 ? "" : "s"}`;
