import { AppError } from "@statusmesh/shared/errors";
import type { Publish, PublishInput } from "./publish-schema.ts";
import type { StatusPageRow } from "./queries.ts";

/** The rules that an input asks for. Throws INVALID_BODY where the mode after has no minutes. */
export function publishRules(input: PublishInput | undefined): Publish {
  const { mode, after_minutes: minutes = null } = input ?? { mode: "always" };
  if (mode === "after" && minutes === null)
    throw new AppError("INVALID_BODY", "Enter after how many minutes incidents are published, 1 to 1440.", {
      field: "/publish/after_minutes",
    });
  return { mode, after_minutes: mode === "after" ? minutes : null };
}

/** What a new page stores. One that does not show every incident shows none from before it either. */
export function firstPublish(input: PublishInput | undefined): Pick<StatusPageRow, "publish" | "publish_since"> {
  const publish = publishRules(input);
  return { publish, publish_since: publish.mode === "always" ? null : new Date(0) };
}

/** What a change of the rules stores; undefined changes nothing. */
export function changedPublish(
  before: Pick<StatusPageRow, "publish" | "publish_since">,
  input: PublishInput | undefined,
  now: Date,
): Pick<StatusPageRow, "publish" | "publish_since"> {
  if (input === undefined) return { publish: before.publish, publish_since: before.publish_since };
  const publish = publishRules(input);
  return { publish, publish_since: publish.mode === "always" ? null : (before.publish_since ?? now) };
}
