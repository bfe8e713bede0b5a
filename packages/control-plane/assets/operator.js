import { answerOf, split } from "./api.js";
import { announce, el, onSubmit, say, whileDisabled } from "./dom.js";
import { clearErrors, readForm, showError } from "./form.js";
import { refresh } from "./live.js";

// What belongs to the installation, not to an organisation: its requests carry the operator secret, not the session.

const kept = "operator-secret";
let typed = "";

/** The secret of this tab; empty when there is none yet. */
export function secretOf() {
  try {
    return sessionStorage.getItem(kept) ?? typed;
  } catch {
    return typed;
  }
}

export function keep(secret) {
  typed = secret;
  try {
    if (secret === "") sessionStorage.removeItem(kept);
    else sessionStorage.setItem(kept, secret);
  } catch {
    // Storage is off: the secret lasts as long as the page.
  }
}

/** A request to the operator API; answers like `call`. */
export function ask(method, path, body, secret) {
  const authorization = { Authorization: `Bearer ${secret}` };
  const request = fetch(path, {
    method,
    credentials: "omit",
    headers: body === undefined ? authorization : { ...authorization, "Content-Type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  return answerOf(request);
}

/** Asks for the secret in the dialog, or hides its field where this tab has one. */
function prepare(dialog) {
  const field = dialog.querySelector("[data-secret]");
  if (!field) return;
  field.hidden = secretOf() !== "";
  clearErrors(dialog.querySelector("form"));
}

export function refuseSecret(form, message) {
  keep("");
  const field = form.querySelector("[data-secret]");
  field.hidden = false;
  const input = field.querySelector("input");
  input.setAttribute("aria-invalid", "true");
  field.querySelector(".error-note")?.remove();
  field.append(el("p", { class: "error-note" }, message));
  announce(message);
  input.focus();
}

async function submit(form) {
  clearErrors(form);
  const typedNow = form.querySelector("[data-operator-secret]").value.trim();
  const secret = typedNow || secretOf();
  if (secret === "") return refuseSecret(form, "Enter the operator secret.");
  const [method, path] = split(form.dataset.operatorSend);
  const read = method === "DELETE" ? { body: undefined } : readForm(form);
  if (read === null) return;
  const button = form.querySelector("[type=submit]");
  const answer = await whileDisabled(button, () => ask(method, path, read.body, secret));
  if (answer.status === 401) return refuseSecret(form, "The operator secret is wrong. Enter operator.admin_token.");
  if (!answer.ok) return showError(form, answer.error);
  keep(secret);
  const dialog = form.closest("dialog");
  dialog.close();
  form.reset();
  if (dialog.id === "add-region") regionAdded(answer.data);
  else if (dialog.id === "add-agent") showToken(answer.data.token);
  else say("Agent deleted.");
  await refresh(true);
}

/** A region is of use with an agent: offers to add one. */
function regionAdded({ id, name }) {
  const dialog = document.getElementById("add-agent");
  dialog.querySelector("select").append(new Option(name, id, true, true));
  say(`Region ${name} added. Add an agent to it.`);
  prepare(dialog);
  dialog.showModal();
}

function showToken(token) {
  const box = document.getElementById("new-agent");
  for (const text of box.querySelectorAll("pre")) {
    text.dataset.template ??= text.textContent;
    text.textContent = text.dataset.template.replaceAll("{token}", token);
  }
  box.hidden = false;
  box.focus();
  box.scrollIntoView({ block: "start" });
}

function forget(box) {
  for (const text of box.querySelectorAll("pre")) text.textContent = text.dataset.template ?? text.textContent;
  box.hidden = true;
}

/** Lets the buttons and dialogs of pages for operators work. */
export function operator() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.dataset.forget) forget(document.getElementById(button.dataset.forget));
    if (!button.dataset.dialog) return;
    const dialog = document.getElementById(button.dataset.dialog);
    if (button.dataset.sendTo) {
      dialog.querySelector("form").dataset.operatorSend = `DELETE ${button.dataset.sendTo}`;
      dialog.querySelector("[data-name]").textContent = button.dataset.named;
    }
    prepare(dialog);
  });
  onSubmit("[data-operator-send]", submit);
}
