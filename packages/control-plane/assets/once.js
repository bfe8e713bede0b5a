import { call, split } from "./api.js";
import { whileDisabled } from "./dom.js";
import { clearErrors, readForm, showError } from "./form.js";

/**
 * Sends a form with `data-once`, the request: its answer has a secret that is shown this once, in the box `data-shows`
 * in place of the form.
 */
export async function submitOnce(form) {
  clearErrors(form);
  const [method, path] = split(form.dataset.once);
  const read = readForm(form);
  if (read === null) return;
  const answer = await whileDisabled(form.querySelector("[type=submit]"), () => call(method, path, read.body));
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
