import { resetSignIn } from "../../access/auth/service.ts";
import { signInUrl } from "../../access/auth/passkeys/service.ts";
import type { Config } from "../../config/config.ts";
import type { Clock } from "../../platform/process/clock.ts";
import { withSystem } from "../open-system.ts";

/**
 * `statusmesh reset-sign-in <email>`: prints a one-time link that resets the sign-in of a member. Works beside a
 * running service; the printing changes nothing else. Throws StartupError for an unknown address.
 */
export async function printReset(
  config: Config,
  clock: Clock,
  address: string,
  say: (line: string) => void,
): Promise<void> {
  await withSystem(config, clock, "reset-sign-in", async (system) => {
    const { email, signInPath } = await resetSignIn(system, address);
    say(`Sign in as ${email} within 15 minutes: ${signInUrl(config, signInPath)}`);
    say(
      "Its use ends all sessions of this person and removes their password and passkeys. Until then nothing changes.",
    );
  });
}
