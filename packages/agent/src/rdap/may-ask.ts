/**
 * Whether a URL may be asked, to which `from` led: https, or http on this machine where mirrors and tests are. What is https
 * itself leads to nothing else, so that neither the public list nor a registry can send the agent to services beside it.
 */
export function mayAsk(url: URL, from: URL = url): boolean {
  if (url.username !== "" || url.password !== "") return false;
  if (url.protocol === "https:") return true;
  return (
    url.protocol === "http:" &&
    from.protocol === "http:" &&
    /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/.test(url.hostname)
  );
}
