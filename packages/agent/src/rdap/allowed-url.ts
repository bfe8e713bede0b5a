// Not in get.ts: options of commands are checked with it, and they load no HTTP client.

/**
 * Whether a redirect from `from` may lead to a URL: https, or http on this machine for mirrors and tests. An https URL
 * leads to https only, so that neither the public list nor a registry can send the agent to local services.
 */
export function isAllowedUrl(url: URL, from: URL = url): boolean {
  if (url.username !== "" || url.password !== "") return false;
  if (url.protocol === "https:") return true;
  return (
    url.protocol === "http:" &&
    from.protocol === "http:" &&
    /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/.test(url.hostname)
  );
}
