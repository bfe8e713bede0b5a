import { resealTotp } from "../../access/auth/second-factor/service.ts";
import { resealChannels } from "../../alerting/channels/config/service.ts";
import { resealPushKeys } from "../../alerting/channels/devices/service.ts";
import type { Config } from "../../config/config.ts";
import type { System } from "../../platform/context.ts";
import type { Clock } from "../../platform/process/clock.ts";
import type { ResealedBatch } from "../../platform/crypto/reseal.ts";
import { pendingMigrations } from "../../platform/db/migrate.ts";
import { resealSnapshots } from "../../alerting/incidents/timeline/service.ts";
import { silentLog } from "../../platform/process/log.ts";
import { resealKeys } from "../../monitoring/certificates/service.ts";
import { resealTokens } from "../../monitoring/heartbeats/service.ts";
import { resealWaitingRuns } from "../../monitoring/pipeline/engine.ts";
import { makeSystem, openConfiguredDatabase } from "../open-system.ts";
import { ownCommand } from "../../platform/program.ts";
import { resealShares } from "../../publishing/shares/service.ts";
import { StartupError } from "../../config/startup-error.ts";
import { resealSubscribers } from "../../publishing/subscribers/service.ts";
import { resealTargets } from "../../monitoring/targets/stored/service.ts";

/** Rows locked per transaction: a concurrent edit waits some milliseconds. */
const batchSize = 200;

/** Every table that holds sealed secrets. */
const stores: readonly {
  name: string;
  reseal(system: System, after: string | null, limit: number): Promise<ResealedBatch>;
}[] = [
  { name: "targets", reseal: resealTargets },
  { name: "certificates", reseal: resealKeys },
  { name: "heartbeats", reseal: resealTokens },
  { name: "channels", reseal: resealChannels },
  { name: "push keys", reseal: resealPushKeys },
  { name: "share links", reseal: resealShares },
  { name: "subscribers", reseal: resealSubscribers },
  { name: "failed responses", reseal: resealSnapshots },
  { name: "waiting runs", reseal: resealWaitingRuns },
  { name: "second factors", reseal: resealTotp },
];

/**
 * `statusmesh rotate-kek`: seals every stored secret under `security.credentials_kek_base64`, from the previous key or
 * from plain text. It can be interrupted and repeated: sealed rows are skipped. Returns the exit code: 1 when a secret
 * could not be opened.
 */
export async function rotateKek(config: Config, clock: Clock, say: (line: string) => void): Promise<number> {
  if (config.security.credentials_kek_base64 === "")
    throw new StartupError(
      "There is no key to seal under: set security.credentials_kek_base64 " +
        "(SM_SECURITY__CREDENTIALS_KEK_BASE64), and the old key as security.credentials_kek_previous_base64.",
    );
  const database = await openConfiguredDatabase(config, silentLog, true);
  try {
    if ((await pendingMigrations(database.sql)).length > 0)
      throw new StartupError(`The database is older than this StatusMesh. First run: ${ownCommand("migrate")}`);
    return await resealAll(makeSystem(config, database.sql, clock, silentLog), say);
  } finally {
    await database.stop();
  }
}

/** {@link rotateKek} over an open database. */
export async function resealAll(
  system: System,
  say: (line: string) => void,
  limit: number = batchSize,
): Promise<number> {
  let failures = 0;
  for (const { name, reseal } of stores) {
    let [seen, changed] = [0, 0];
    for (let after: string | null = null, more = true; more;) {
      const batch: ResealedBatch = await reseal(system, after, limit);
      seen += batch.seen;
      changed += batch.changed;
      failures += batch.failed.length;
      for (const { id, reason } of batch.failed) say(`${name}: ${id} stays as it is: ${reason}`);
      after = batch.last;
      more = after !== null;
    }
    say(`${name}: ${changed} of ${seen} sealed anew`);
  }
  say(
    failures === 0
      ? "Everything is sealed under security.credentials_kek_base64. Once every replica runs with it, the " +
          "previous key can go."
      : `${failures} could not be opened: keep the key that they were sealed under, name it as ` +
          "security.credentials_kek_previous_base64, and run this again.",
  );
  return failures === 0 ? 0 : 1;
}
