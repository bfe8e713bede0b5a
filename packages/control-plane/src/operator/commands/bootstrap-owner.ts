import { bootstrapOwner, type OwnerAccess } from "../../access/auth/service.ts";
import { signInUrl } from "../../access/auth/passkeys/service.ts";
import { requireDefaultPlan } from "../../access/plans/service.ts";
import type { Config } from "../../config/config.ts";
import type { Clock } from "../../platform/process/clock.ts";
import { withSystem } from "../open-system.ts";

/**
 * `statusmesh bootstrap-owner`: prints a sign-in link for an owner, and a token on request. Works beside a running
 * service. Throws StartupError without a database: a link into a new one would be useless.
 */
export async function giveAccess(
  config: Config,
  clock: Clock,
  access: OwnerAccess,
  say: (line: string) => void,
): Promise<void> {
  await withSystem(config, clock, "bootstrap-owner", async (system) => {
    await requireDefaultPlan(system);
    const { email, signInPath, token } = await bootstrapOwner(system, access);
    say(`Owner: ${email}`);
    say(`Sign in within 15 minutes: ${signInUrl(config, signInPath)}`);
    if (token !== null) say(`API token, shown this once, until ${token.expiresAt.toISOString()}: ${token.secret}`);
  });
}
