import { hasTyped } from "./leave.js";
import { orgFetch } from "./org.js";

/** The answer to a request: `{ok, status, data}` or `{ok: false, status, error: {message, field}}`. Never rejects. */
export async function answerOf(request) {
  const failed = (status, message) => ({ ok: false, status, error: { message, field: null } });
  try {
    const reply = await request;
    const data = await reply.json().catch(() => null);
    if (reply.ok) return { ok: true, status: reply.status, data };
    if (data?.error) return { ok: false, status: reply.status, error: data.error };
    return failed(reply.status, `StatusMesh answered ${reply.status}. Try again in a moment.`);
  } catch {
    return failed(0, "StatusMesh does not answer. Check the connection and try again.");
  }
}

/**
 * Calls the JSON API; a file as the body is sent as it is. When the session has ended it leads to the sign-in page and
 * back, or asks in place where the page has unsaved input. A change that needs a fresh sign-in is sent again once the
 * person has confirmed who they are.
 */
export async function call(method, path, body, headers = {}) {
  const answer = await sent(method, path, body, headers);
  // An invitation to an account with a second factor.
  if (answer.error?.code === "CODE_REQUIRED") location.assign("/sign-in/code?next=/");
  if (answer.error?.code !== "FRESH_SIGN_IN_REQUIRED") return answer;
  const { confirmed } = await import("./verify.js");
  return (await confirmed(answer.error)) ? sent(method, path, body, headers) : answer;
}

async function sent(method, path, body, headers) {
  const file = body instanceof Blob;
  const type = file ? "application/octet-stream" : "application/json";
  const request = orgFetch(path, {
    method,
    headers: body === undefined ? headers : { ...headers, "Content-Type": type },
    body: body === undefined || file ? body : JSON.stringify(body),
  });
  const answer = await answerOf(request);
  if (answer.status === 401 && answer.error.code === "UNAUTHENTICATED" && !location.pathname.startsWith("/sign-in")) {
    if (hasTyped()) void import("./session.js").then((module) => module.sessionEnded());
    else location.assign(`/sign-in?next=${encodeURIComponent(location.pathname + location.search)}`);
  }
  return answer;
}

/** The current entity tag of a resource; null where it cannot be read. */
export async function tagOf(path) {
  const reply = await orgFetch(path, { method: "HEAD", cache: "no-store" }).catch(() => null);
  // A proxy that compresses replies marks the tag as weak.
  return reply?.ok ? (reply.headers.get("etag")?.replace(/^W\//, "") ?? null) : null;
}

/** The code of a sign-in link: a whole link may be pasted where its code is asked for. */
export const codeOf = (text) => text.trim().split("/sign-in/").at(-1).split(/[?#]/, 1)[0];

/** `POST /api/v1/targets` in its two parts. */
export function split(text) {
  const at = text.indexOf(" ");
  return [text.slice(0, at), text.slice(at + 1)];
}
