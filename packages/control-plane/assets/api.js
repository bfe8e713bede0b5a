import { hasTyped } from "./leave.js";
import { orgFetch } from "./org.js";

/**
 * Calls the JSON API; a file as the body is sent as it is. Answers `{ok, data}` or `{ok: false, error: {message,
 * field}}`, and never throws. When the session has ended it leads to the sign-in page and back, or asks in place where
 * the page has unsaved input.
 */
export async function call(method, path, body, headers = {}) {
  let reply;
  const file = body instanceof Blob;
  const type = file ? "application/octet-stream" : "application/json";
  try {
    reply = await orgFetch(path, {
      method,
      headers: body === undefined ? headers : { ...headers, "Content-Type": type },
      body: body === undefined || file ? body : JSON.stringify(body),
    });
  } catch {
    return {
      ok: false,
      status: 0,
      error: { message: "StatusMesh does not answer. Check the connection and try again.", field: null },
    };
  }
  const data = await reply.json().catch(() => null);
  if (reply.ok) return { ok: true, status: reply.status, data };
  if (reply.status === 401 && !location.pathname.startsWith("/sign-in")) {
    if (hasTyped()) void import("./session.js").then((module) => module.sessionEnded());
    else location.assign(`/sign-in?next=${encodeURIComponent(location.pathname + location.search)}`);
  }
  return {
    ok: false,
    status: reply.status,
    error: data?.error ?? { message: `StatusMesh answered ${reply.status}. Try again in a moment.`, field: null },
  };
}

/** The current entity tag of a resource; null where it cannot be read. */
export async function tagOf(path) {
  const reply = await orgFetch(path, { method: "HEAD", cache: "no-store" }).catch(() => null);
  // A proxy that compresses replies marks the tag as weak.
  return reply?.ok ? (reply.headers.get("etag")?.replace(/^W\//, "") ?? null) : null;
}

/** `POST /api/v1/targets` in its two parts. */
export function split(text) {
  const at = text.indexOf(" ");
  return [text.slice(0, at), text.slice(at + 1)];
}
