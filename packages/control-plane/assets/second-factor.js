import { call } from "./api.js";
import { onSubmit, say, whileDisabled } from "./dom.js";
import { clearErrors, readForm, showError } from "./form.js";
import { markSaved } from "./leave.js";

/** Sets up an authenticator app: its secret, the first code, and the recovery codes, which are shown once. */
export function secondFactor() {
  const box = document.querySelector("[data-second-factor]");
  const form = box.querySelector("[data-totp-form]");
  box.addEventListener("click", (event) => {
    const button = event.target.closest("[data-totp]");
    if (button?.dataset.totp === "begin") void begin(box, form, button);
    else if (button) void renew(box, button);
  });
  onSubmit("[data-totp-form]", () => confirm(box, form));
}

async function begin(box, form, button) {
  const answer = await whileDisabled(button, () => call("POST", "/api/v1/me/totp"));
  if (!answer.ok) return say(answer.error.message, "down");
  // Digits and markup of the service only.
  const drawing = new DOMParser().parseFromString(answer.data.qr, "image/svg+xml").documentElement;
  drawing.setAttribute("role", "img");
  drawing.setAttribute("aria-label", "QR code of the key");
  form.querySelector("[data-qr]").replaceChildren(document.adoptNode(drawing));
  form.querySelector("pre").textContent = answer.data.secret;
  box.querySelector("[data-first]").hidden = true;
  form.hidden = false;
  form.elements["/code"].focus();
}

async function confirm(box, form) {
  clearErrors(form);
  const read = readForm(form);
  if (read === null) return;
  const answer = await whileDisabled(form.querySelector("[type=submit]"), () =>
    call("POST", "/api/v1/me/totp/confirm", read.body),
  );
  if (!answer.ok) return showError(form, answer.error);
  markSaved([...form.elements]);
  form.hidden = true;
  show(box, answer.data.recovery_codes);
}

async function renew(box, button) {
  const answer = await whileDisabled(button, () => call("POST", "/api/v1/me/totp/recovery-codes"));
  if (!answer.ok) return say(answer.error.message, "down");
  box.querySelector("[data-first]").hidden = true;
  show(box, answer.data.recovery_codes);
}

function show(box, codes) {
  const shown = box.querySelector("[data-recovery]");
  shown.querySelector("pre").textContent = codes.join("\n");
  shown.hidden = false;
  shown.focus();
}
