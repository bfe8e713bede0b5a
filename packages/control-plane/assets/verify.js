import { answerOf } from "./api.js";
import { button, el, openDialog, whileDisabled } from "./dom.js";
import { orgFetch } from "./org.js";

/** Proofs that a form asks for: name in the API, label, and attributes of the field. */
const fields = {
  password: ["Password", { type: "password", autocomplete: "current-password" }],
  code: ["Code of your authenticator app", { autocomplete: "one-time-code", maxlength: "40" }],
};

/**
 * Asks the person to confirm who they are before a change that needs a fresh sign-in. True once the session is fresh;
 * false when they leave the dialog.
 */
export function confirmed({ message, details }) {
  const proofs = details?.proofs ?? [];
  const inputs = proofs
    .filter((name) => name in fields)
    .map((name) => {
      const [label, attributes] = fields[name];
      const input = el("input", { id: `verify-${name}`, name, required: "", ...attributes });
      return el("div", { class: "field" }, el("label", { for: input.id }, label), input);
    });
  const problem = el("p", { class: "error-note", role: "alert", hidden: "" });
  const again = `/sign-in?next=${encodeURIComponent(location.pathname + location.search)}`;
  const form = el(
    "form",
    { novalidate: "" },
    ...inputs,
    problem,
    el(
      "div",
      { class: "actions" },
      inputs.length > 0 ? el("button", { class: "btn primary", type: "submit" }, "Confirm") : null,
      proofs.includes("passkey") ? button("Use a passkey", (event) => void byPasskey(event.target)) : null,
      el("a", { class: inputs.length > 0 ? "btn" : "btn primary", href: again }, "Sign in again"),
      el("button", { class: "btn", type: "button", "data-close": "" }, "Cancel"),
    ),
  );
  const dialog = openDialog(
    { id: "verify", "aria-labelledby": "verify-title" },
    el("h2", { id: "verify-title" }, "Confirm that it is you"),
    el("p", {}, message),
    form,
  );
  async function byPasskey(pressed) {
    const { prove: provePasskey } = await import("./webauthn.js");
    const answer = await whileDisabled(pressed, () => provePasskey("/api/v1/sessions/current/verify"));
    if (answer.ok) return dialog.close("fresh");
    problem.textContent = answer.error.message;
    problem.hidden = false;
  }
  return new Promise((resolve) => {
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      void prove(form, problem).then((fresh) => fresh && dialog.close("fresh"));
    });
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "fresh"));
  });
}

/** Sends what was typed. True once the session is fresh. */
async function prove(form, problem) {
  const typed = [...form.querySelectorAll("input")];
  const submit = form.querySelector("[type=submit]");
  submit.disabled = true;
  const answer = await answerOf(
    orgFetch("/api/v1/sessions/current/verify", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(Object.fromEntries(typed.map(({ name, value }) => [name, value]))),
    }),
  );
  submit.disabled = false;
  if (answer.ok) return true;
  problem.textContent = answer.error.message;
  problem.hidden = false;
  (typed.find(({ name }) => answer.error.details?.pointer === `/${name}`) ?? typed[0]).focus();
  return false;
}
