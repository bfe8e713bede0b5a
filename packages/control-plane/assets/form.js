import { call, codeOf, split, tagOf } from "./api.js";
import { bodyOf, controlsOf, Unreadable } from "./body.js";
import { announce, button, el, onSubmit, say, whileDisabled } from "./dom.js";
import { leaveFor, markSaved } from "./leave.js";

/** Takes the errors off a form. */
export function clearErrors(form) {
  for (const note of form.querySelectorAll(".error-note")) note.remove();
  for (const control of form.querySelectorAll("[aria-invalid]")) {
    control.removeAttribute("aria-invalid");
    control.setAttribute(
      "aria-describedby",
      (control.getAttribute("aria-describedby") ?? "")
        .split(" ")
        .filter((id) => !id.endsWith("-error"))
        .join(" "),
    );
  }
  const general = form.querySelector("[data-form-error]");
  if (general) general.hidden = true;
}

/** Shows the errors of an API reply beside the fields that they name, and those without a field on top of the form. */
export function showError(form, error, prefix = "", part = null) {
  const general = [];
  const places = new Map();
  for (const { field, message } of faultsOf(error)) {
    const place = field === null ? null : placeOf(form, prefix + field, part);
    if (place === null) general.push(message);
    else places.set(place, [...(places.get(place) ?? []), message]);
  }
  const inOrder = [...places].sort(([a], [b]) =>
    a.compareDocumentPosition(b) & Node.DOCUMENT_POSITION_FOLLOWING ? -1 : 1,
  );
  markAll(inOrder.map(([control, messages]) => ({ control, message: messages.join(" ") })));
  if (general.length > 0) {
    const box = form.querySelector("[data-form-error]");
    box.textContent = general.join(" ");
    box.hidden = false;
    box.tabIndex = -1;
    if (places.size === 0) box.focus();
    box.scrollIntoView({ block: "center" });
  }
  announceFaults([...general, ...inOrder.map(([, messages]) => messages[0])]);
}

/** The faults that an error of the API lists; a reply other than 400 has its pointer among the details. */
const faultsOf = ({ message, field = null, details = null }) =>
  details?.errors ?? [{ field: field ?? details?.pointer ?? null, message }];

/** Marks controls, and focuses the first of them. */
function markAll(faults) {
  // The first one last: each takes the focus.
  for (const { control, message } of faults.toReversed()) mark(control, message);
}

/** Marks controls and announces what is wrong. True where something is. */
function showFaults(faults) {
  markAll(faults);
  if (faults.length > 0) announceFaults(faults.map(({ message }) => message));
  return faults.length > 0;
}

function announceFaults(messages) {
  announce(messages.length === 1 ? messages[0] : `${messages.length} errors. ${messages[0]}`);
}

/** Opens what folds a control away: sections, and the number behind the presets of the interval. */
function reveal(place) {
  for (let box = place.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
  const behind = place.closest("[data-other]");
  if (behind === null) return;
  behind.hidden = false;
  behind.parentElement.querySelector('[name="every"][value=""]').checked = true;
}

/** What shows the error of a control: its field, its option, its level of the ladder, or the group around it. */
const boxOf = (place) => place.closest(".field, .opt, [data-rung], [data-field], fieldset, form");

/** The control of a group that takes the focus. */
const firstOf = (group) => [...group.querySelectorAll("input, select, textarea")].find((own) => own.checkVisibility());

function mark(place, message) {
  reveal(place);
  const id = `${place.id || "field"}-error`;
  place.setAttribute("aria-invalid", "true");
  place.setAttribute("aria-describedby", `${place.getAttribute("aria-describedby") ?? ""} ${id}`.trim());
  boxOf(place).append(el("p", { class: "error-note", id }, message));
  (place.matches("input, select, textarea") ? place : (firstOf(place) ?? place)).focus();
}

/** The control of a pointer, or of the nearest one around it: an error in /check/headers/X belongs to the headers. */
function placeOf(form, pointer, part) {
  const controls = controlsOf(form, part).filter((control) => control.type !== "hidden");
  for (let at = pointer; at !== ""; at = at.slice(0, at.lastIndexOf("/"))) {
    const control = controls.find(
      (own) =>
        own.name === at && own.type !== "radio" && !["channel", "item", "member", "part"].includes(own.dataset.as),
    );
    const group = form.querySelector(`[data-field~="${CSS.escape(at)}"]`);
    if (control ?? group) return control ?? group;
  }
  return null;
}

/** The body, or null after showing what cannot be read; the options are those of {@link bodyOf}. */
export function readForm(form, options) {
  try {
    return { body: bodyOf(form, options) };
  } catch (error) {
    if (!(error instanceof Unreadable)) throw error;
    showFaults(error.faults);
    return null;
  }
}

/** The requests of a form: its own, and one per fieldset with `data-request`. Null after showing a parse error. */
function requestsOf(form) {
  const requests = [];
  for (const part of [null, ...form.querySelectorAll("[data-request]")]) {
    const [method, path] = split(part?.dataset.request ?? form.dataset.api);
    const read = readForm(form, { onlyChanged: part !== null || method === "PATCH", part });
    if (read === null) return null;
    if (read.body !== null) requests.push({ method, path, part, body: read.body });
  }
  // A policy may count only regions that are there: new regions are stored before the policy, removed ones after it.
  const grows = (request) =>
    [...(request.part?.querySelectorAll("input") ?? [])].some((box) => box.checked && !box.defaultChecked);
  return requests.sort((a, b) => grows(b) - grows(a));
}

async function submit(form) {
  clearErrors(form);
  const requests = requestsOf(form);
  if (requests === null) return;
  // A module that few pages need.
  const images = form.querySelector("[data-image]") === null ? null : await import("./upload.js");
  if (showFaults(images?.imageFaults(form) ?? [])) return;
  const [saved, fault] = await whileDisabled(form.querySelector("[type=submit]"), async () => {
    const first = await sendAll(form, requests);
    return [first, first && (await images?.sendImages(form, first.id ?? form.dataset.id))];
  });
  if (saved === null) return;
  if (fault) {
    afterwardsPatch(form, saved.id);
    showFaults([fault]);
    return;
  }
  // The first channel is offered to the monitors that exist.
  if (form.elements.apply?.checked) await call("POST", `${split(form.dataset.api)[1]}/${saved.id}/apply`);
  if (form.dataset.switch !== undefined) await call("POST", `/api/v1/orgs/${saved.id}/switch`);
  if (form.dataset.next === "refresh") {
    say("Saved.");
    await (await import("./live.js")).refresh(true);
  } else if (form.dataset.next === "added") {
    form.dispatchEvent(new CustomEvent("added", { bubbles: true, detail: saved }));
  } else {
    await leaveFor(form.dataset.next.replaceAll(/\{(\w+)\}/g, (_, field) => saved[field] ?? form.dataset[field] ?? ""));
  }
}

/** What a form has created is changed by its next request, not created again. */
function afterwardsPatch(form, id) {
  const [method, path] = split(form.dataset.api);
  if (method !== "POST") return;
  form.dataset.id = id;
  form.dataset.api = `PATCH ${path}/${id}`;
}

/** Reports a newer state saved by another person, and offers both ways on. The input stays. */
function outdated(form) {
  const message = "This was changed by someone else since you opened it. Your changes were not saved.  ";
  showError(form, { message });
  const reload = button("Reload and discard my changes", () => void leaveFor(location.href));
  const overwrite = button("Save my changes anyway", () => {
    form.dataset.match = "";
    form.requestSubmit(form.querySelector("[type=submit]"));
  });
  form.querySelector("[data-form-error]").append(el("span", { class: "actions" }, reload, overwrite));
  return null;
}

/** Sends the requests in order. Returns the first reply; null after showing an error and the part already saved. */
async function sendAll(form, requests) {
  const [, whole] = split(form.dataset.api);
  // Two people may edit the same monitor: the second save is refused instead of overwriting the first.
  if (form.dataset.match && requests.some(({ path }) => path !== whole)) {
    const now = await tagOf(whole);
    if (now !== null && now !== form.dataset.match) return outdated(form);
  }
  let first;
  let saved = null;
  for (const { method, path, part, body } of requests) {
    const title = (part ?? form).dataset.title;
    const condition = form.dataset.match && path === whole ? { "If-Match": form.dataset.match } : {};
    const answer = await call(method, path, body, condition);
    if (answer.ok && form.dataset.match) form.dataset.match = (await tagOf(whole)) ?? "";
    if (answer.status === 412) return outdated(form);
    if (!answer.ok) {
      const [first, ...others] = faultsOf(answer.error);
      const partly = saved === null ? "" : `The ${saved} are saved, the ${title} are not. `;
      const errors = [{ ...first, message: partly + first.message }, ...others];
      showError(form, { details: { errors } }, "", part);
      return null;
    }
    first ??= answer.data;
    saved = title;
    markSaved([...form.elements].filter((control) => control.closest("[data-request]") === part));
  }
  return first ?? {};
}

async function signIn(form) {
  clearErrors(form);
  const answer = await call("POST", "/api/v1/sessions", { code: codeOf(form.elements["/code"].value) });
  if (answer.ok) await leaveFor(form.dataset.next);
  else if (answer.error.code === "CODE_REQUIRED")
    await leaveFor(`/sign-in/code?next=${encodeURIComponent(form.dataset.next)}`);
  else showError(form, answer.error);
}

/** Shows the alternatives that the choices of a form ask for, and disables the others so that they are not sent. */
function choose(form) {
  for (const box of form.querySelectorAll("[data-when]")) {
    const [name, wanted] = box.dataset.when.split("=");
    const controls = [...form.elements].filter((control) => control.name === name);
    const value = controls.find((control) => control.type !== "radio" || control.checked)?.value;
    box.hidden = box.disabled = !wanted.split("|").includes(value);
  }
}

/** Suggests the default interval of a kind until the person enters one. */
function suggestInterval(form, radio) {
  const interval = form.elements["/interval"];
  if (!interval || radio.dataset.interval === undefined) return;
  interval.min = radio.dataset.min;
  if (interval.value === interval.defaultValue || Number(interval.value) < Number(interval.min))
    interval.value = interval.defaultValue = radio.dataset.interval;
}

/** Makes the forms of the page work. Listens on the document: parts of the page are replaced while it is open. */
export function forms() {
  onSubmit("[data-sign-in]", signIn);
  onSubmit("[data-api]", submit);
  document.addEventListener("input", (event) => {
    const invalid = event.target.closest("[aria-invalid]");
    if (!invalid) return;
    invalid.removeAttribute("aria-invalid");
    boxOf(invalid).querySelector(".error-note")?.remove();
  });
  document.addEventListener("change", (event) => {
    const form = event.target.form;
    if (!form?.matches("[data-api]")) return;
    if (event.target.name === "/check/type") suggestInterval(form, event.target);
    choose(form);
  });
  for (const form of document.querySelectorAll("form[data-api]")) choose(form);
  // A module that few pages need.
  if (document.querySelector("[data-picks]")) void import("./colour.js");
}
