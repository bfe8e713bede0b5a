import { el, say } from "./dom.js";

/** Reports the end of the session and offers to sign in in another tab; the input stays. */
export function sessionEnded() {
  if (document.getElementById("session-ended")) return;
  const dialog = el(
    "dialog",
    { id: "session-ended", "aria-labelledby": "session-ended-title" },
    el("h2", { id: "session-ended-title" }, "Your session has ended"),
    el("p", {}, "What you typed is kept. Sign in in a new tab, come back to this one and save again."),
    el(
      "form",
      { method: "dialog", class: "actions" },
      el("a", { class: "btn primary", href: "/sign-in?next=/settings", target: "_blank", rel: "noopener" }, "Sign in"),
      el("button", { class: "btn" }, "Close"),
    ),
  );
  const onFocus = () => void check(dialog);
  dialog.addEventListener("close", () => {
    window.removeEventListener("focus", onFocus);
    dialog.remove();
  });
  window.addEventListener("focus", onFocus);
  document.body.append(dialog);
  dialog.showModal();
}

/** Closes the dialog once a session is there again. One in another organisation would save to the wrong place. */
async function check(dialog) {
  const reply = await fetch("/api/v1/me").catch(() => null);
  if (!reply?.ok || !dialog.open) return;
  const { org } = await reply.json();
  dialog.close();
  if (org.id === document.body.dataset.org) say("Signed in. Save again.");
  else
    say(`You signed in to ${org.name}, but this page belongs to another organisation. Switch under Settings.`, "down");
}
