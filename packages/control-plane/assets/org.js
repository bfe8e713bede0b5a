import { button, el } from "./dom.js";

// The console shows one organisation at a time, that of the session, and another tab may switch it. The requests of a
// page name the organisation that the page shows, so that they go there all the same.

const { org, orgName } = document.body.dataset;
/** Paths that name an organisation themselves, or concern the account. */
const ownPaths = /^\/api\/v1\/(?:me|orgs|sessions|invitations)(?:\/|$)/;
const kept = "organisation";
/** True while the session acts in another organisation. */
let elsewhere = false;

/** `fetch` in the organisation of this page. */
export async function orgFetch(path, init = {}) {
  if (!org || ownPaths.test(path)) {
    // A switch from this page is meant: its next page is one of the other organisation.
    if (path.endsWith("/switch")) elsewhere = false;
    return await fetch(path, init);
  }
  const reply = await fetch(path, { ...init, headers: { ...init.headers, "X-Sm-Org": org } });
  const current = reply.headers.get("x-sm-session-org");
  if (current) show(current !== org);
  return reply;
}

/** Switches the session back, so that the next page shows the organisation of this one. */
export async function stay() {
  if (elsewhere) await fetch(`/api/v1/orgs/${org}/switch`, { method: "POST" }).catch(() => null);
}

/** Says to which organisation the page belongs while the session acts in another one. */
function show(now) {
  if (now === elsewhere) return;
  elsewhere = now;
  document.getElementById("elsewhere")?.remove();
  if (!now) return;
  const back = button("Switch back", async () => {
    await stay();
    show(false);
    tell();
  });
  document
    .getElementById("main")
    .prepend(
      el(
        "div",
        { id: "elsewhere", class: "why unknown", role: "status" },
        el("p", {}, `You switched to another organisation. This page saves to ${orgName}.`),
        el("p", { class: "actions" }, back, el("a", { class: "btn", href: "/" }, "Go to that organisation")),
      ),
    );
}

/** Tells the other tabs in which organisation the session acts. */
function tell() {
  try {
    localStorage.setItem(kept, org);
  } catch {
    // Storage is off: each tab learns it from the replies to its requests.
  }
}

/** Announces the organisation of this page to other tabs, and follows theirs. */
export function organisation() {
  if (!org) return;
  tell();
  window.addEventListener(
    "storage",
    ({ key, newValue }) => key === kept && newValue !== null && show(newValue !== org),
  );
}
