/** Whether a URL may be asked: https, or http on this machine where mirrors and tests are. */
export function mayAsk(url: URL): boolean {
  if (url.username !== "" || url.password !== "") return false;
  return url.protocol === "https:" || (url.protocol === "http:" && /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/.test(url.hostname));
}
