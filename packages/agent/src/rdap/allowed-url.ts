// Not in get.ts: options of commands are checked with it, and they load no HTTP client.

const isHere = ({ hostname }: URL): boolean => /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/.test(hostname);
const hasCredentials = ({ username, password }: URL): boolean => username !== "" || password !== "";

/**
 * Whether a redirect from `from` may lead to a URL: https, or http on this machine for mirrors and tests. An https URL
 * leads to https only, so that neither the public list nor a registry can send the agent to local services.
 */
export function isAllowedUrl(url: URL, from: URL = url): boolean {
  if (hasCredentials(url)) return false;
  if (url.protocol === "https:") return true;
  return url.protocol === "http:" && from.protocol === "http:" && isHere(url);
}

/** True for plain http to another machine: only to a server that the list names, and past the address guard. */
export const isPlain = (url: URL): boolean => url.protocol === "http:" && !isHere(url) && !hasCredentials(url);
