import { stay } from "./org.js";

// Unsaved input: found by comparing the controls of a form with what the server sent.

const forms = "form[data-api], form[data-once]";
let leaving = false;

/** True where a control no longer has the value that the server sent. */
export function differs(control) {
  if (control.type === "checkbox" || control.type === "radio") return control.checked !== control.defaultChecked;
  if (control instanceof HTMLSelectElement) {
    const sent = [...control.options].findIndex((option) => option.defaultSelected);
    return control.selectedIndex !== Math.max(0, sent);
  }
  return "defaultValue" in control && control.value !== control.defaultValue;
}

const isTyped = (form) =>
  !form.hidden &&
  [...form.elements].some((control) => !control.matches("button, fieldset, :disabled") && differs(control));

/** True where some form of the page has unsaved input. */
export const hasTyped = (within = document) => [...within.querySelectorAll(forms)].some(isTyped);

/** Goes to another page without asking: the input was saved, or is meant to be discarded. */
export async function leaveFor(address) {
  leaving = true;
  await stay();
  location.assign(address);
}

/** From now on the values of these controls are the stored ones. */
export function markSaved(controls) {
  for (const control of controls) {
    if (control.type === "checkbox" || control.type === "radio") control.defaultChecked = control.checked;
    else if (control instanceof HTMLSelectElement)
      for (const option of control.options) option.defaultSelected = option.selected;
    else control.defaultValue = control.value;
  }
}

/** Moves forms with unsaved input from one copy of the live region to the next. */
export function keepTyped(from, to) {
  const twins = [...to.querySelectorAll(forms)];
  for (const form of [...from.querySelectorAll(forms)].filter(isTyped))
    twins.find((twin) => twin.dataset.api === form.dataset.api)?.replaceWith(form);
}

/** Asks before a page with unsaved input is left, by a link, by Back or by closing the tab. */
export function warnOnLeave() {
  window.addEventListener("beforeunload", (event) => {
    if (!leaving && document.querySelector(".app") !== null && hasTyped()) event.preventDefault();
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-discard]");
    if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) leaving = true;
  });
  window.addEventListener("pageshow", () => (leaving = false));
}
