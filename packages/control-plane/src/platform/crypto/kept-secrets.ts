import { AppError } from "@statusmesh/shared/errors";
import type { SecretsDestination } from "@statusmesh/shared/secrets";

/** The secrets of a check or channel kind. */
interface SecretsKind<Value> {
  mapSecrets(value: Value, change: (secret: string, pointer: string) => string): Value;
  secretsGoTo(value: Value): SecretsDestination | null;
}

/**
 * Throws CREDENTIALS_REQUIRED for the first secret of `after` that the request did not bring (`isSent`), where an edit
 * changes the server that receives it or stops verifying that server: a client that may edit but not read secrets would
 * read them there. Both values have their secrets opened; the field of the error starts at `base`.
 */
export function refuseMovedSecrets<Value>(
  kind: SecretsKind<Value>,
  edit: { before: Value; after: Value; isSent: (pointer: string, secret: string) => boolean; base: string },
): void {
  const [from, to] = [kind.secretsGoTo(edit.before), kind.secretsGoTo(edit.after)];
  if (to === null) return;
  const moved = from?.origin !== to.origin;
  if (!moved && (to.verified || !from.verified)) return;
  kind.mapSecrets(edit.after, (secret, pointer) => {
    if (edit.isSent(pointer, secret)) return secret;
    throw new AppError(
      "CREDENTIALS_REQUIRED",
      `${
        moved
          ? "The edit leads to another server (scheme, host or port differ), and this stored secret is not sent there."
          : "The edit stops verifying the server, and this stored secret is not sent to an unverified one."
      } Send its value again in the same request, or remove it.`,
      { field: edit.base + pointer },
    );
  });
}
