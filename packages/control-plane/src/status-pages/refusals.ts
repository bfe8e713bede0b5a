import { AppError } from "@statusmesh/shared/errors";

export const notFound = () => new AppError("STATUS_PAGE_NOT_FOUND", "There is no status page with this id.");

const counted = { max_status_pages: ["status page", "status pages"], max_public_components: ["public monitor", "public monitors"] } as const;

/** QUOTA_EXCEEDED, with what a client needs to say which limit it was. */
export function quotaExceeded(quota: keyof typeof counted, current: number, limit: number, plan: string): AppError {
  const what = counted[quota][limit === 1 ? 0 : 1];
  return new AppError("QUOTA_EXCEEDED", `The plan ${plan} allows ${limit} ${what}, and there ${current === 1 ? "is" : "are"} ${current} already.`, {
    details: { quota, current, limit, plan },
  });
}
