/** Where requests go: a socket, or an http or https URL. */
export interface Place {
  readonly socketPath?: string;
  readonly url: URL;
  readonly ca?: Buffer;
  readonly cert?: Buffer;
  readonly key?: Buffer;
  readonly rejectUnauthorized?: boolean;
}

/** Where Docker listens unless its configuration says otherwise. */
export const usualSocket = "/var/run/docker.sock";

/** The engine at a path, `unix://`, `tcp://` or `http://`. Null for anything else. */
export function dockerPlace(given: string): Place | null {
  const path = given.replace(/^unix:\/\//, "");
  if (path.startsWith("/")) return { socketPath: path, url: new URL("http://docker/") };
  const address = given.replace(/^tcp:\/\//, "http://");
  return /^https?:\/\//.test(address) && URL.canParse(address) ? { url: new URL(address) } : null;
}
