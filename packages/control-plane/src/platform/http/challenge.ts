/** Paths for clients of Uptime Kuma, whose keys are passwords of HTTP Basic. */
const basicPaths: ReadonlySet<string> = new Set(["/kuma/metrics"]);

/** Whether the token may be the password of Basic. */
export const takesBasic = (path: string): boolean => basicPaths.has(path);

/** The value of WWW-Authenticate (RFC 6750, section 3; RFC 7617, section 2). */
export const challengeOf = (path: string): string =>
  takesBasic(path) ? 'Basic realm="StatusMesh", charset="UTF-8"' : "Bearer";
