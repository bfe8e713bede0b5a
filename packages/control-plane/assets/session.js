import { codeOf } from "./api.js";
import { el, openDialog, say } from "./dom.js";

/** Reports the end of the session and signs in again in place, or in another tab; the input of the page stays. */
export function sessionEnded() {
  if (document.getElementById("session-ended")) return;
  const code = el("input", {
    id: "session-code",
    type: "text",
    autocomplete: "off",
    spellcheck: "false",
    maxlength: "500",
    "aria-describedby": "session-hint",
  });
  const problem = el("p", { class: "error-note", role: "alert", hidden: "" });
  const form = el(
    "form",
    { novalidate: "" },
    el(
      "div",
      { class: "field" },
      el("label", { for: "session-code" }, "Sign-in link"),
      code,
      el("p", { class: "hint", id: "session-hint" }, "Paste a new sign-in link to continue here."),
      problem,
    ),
    el(
      "div",
      { class: "actions" },
      el("button", { class: "btn primary", type: "submit" }, "Sign in"),
      el(
        "a",
        { class: "btn", href: "/sign-in?next=/settings", target: "_blank", rel: "noopener" },
        "Sign in in a new tab",
      ),
      el("button", { class: "btn", type: "button", "data-shut": "" }, "Close"),
    ),
  );
  const dialog = openDialog(
    { id: "session-ended", "aria-labelledby": "session-ended-title" },
    el("h2", { id: "session-ended-title" }, "Your session has ended"),
    el("p", {}, "What you typed is kept. Sign in, then save again."),
    form,
  );
  const onFocus = () => void check(dialog);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void signIn(dialog, code, problem);
  });
  form.querySelector("[data-shut]").addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => window.removeEventListener("focus", onFocus));
  window.addEventListener("focus", onFocus);
}

/** Uses the code of a pasted link, or the code alone. */
async function signIn(dialog, input, problem) {
  problem.hidden = true;
  const reply = await fetch("/api/v1/sessions", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ code: codeOf(input.value) }),
  }).catch(() => null);
  if (reply?.ok) return check(dialog);
  const data = await reply?.json().catch(() => null);
  // The browser knows the sign-in that waits for a code; the page stays open.
  if (data?.error?.code === "CODE_REQUIRED") window.open("/sign-in/code?next=/settings", "_blank", "noopener");
  problem.textContent = data?.error?.message ?? "StatusMesh does not answer. Check the connection and try again.";
  problem.hidden = false;
  input.focus();
}

/** Closes the dialog once a session is there again. In any organisation: requests name that of the page. */
async function check(dialog) {
  const reply = await fetch("/api/v1/me").catch(() => null);
  if (!reply?.ok || !dialog.open) return;
  dialog.close();
  say("Signed in. Save again.");
}
