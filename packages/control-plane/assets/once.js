import { call, split } from "./api.js";
import { clearErrors, readForm, showError } from "./form.js";

/** Sends a form whose answer has a secret that is shown this once, and shows it in place of the form. */
async function submit(form) {
  clearErrors(form);
  const [method, path] = split(form.dataset.once);
  const read = readForm(form);
  if (read === null) return;
  const button = form.querySelector("[type=submit]");
  button.disabled = true;
  const answer = await call(method, path, read.body);
  button.disabled = false;
  if (!answer.ok) return showError(form, answer.error);
  const box = document.getElementById(form.dataset.shows);
  const secret = answer.data.token ?? answer.data.url;
  box.querySelector("pre").textContent = secret;
  for (const place of box.querySelectorAll("[data-with-secret] :is(pre, dd)"))
    place.textContent = place.textContent.replace("<token>", secret);
  form.hidden = true;
  box.hidden = false;
  box.focus();
}

/** Makes forms with `data-once` work: the request that they send, and in `data-shows` the box for the secret. */
export function onceForms() {
  document.addEventListener("submit", (event) => {
    if (!event.target.matches("[data-once]")) return;
    event.preventDefault();
    void submit(event.target);
  });
}
