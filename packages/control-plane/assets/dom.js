/** An element with attributes and children; a null child is left out. */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null) element.setAttribute(name, value);
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** A button that acts when it is pressed. */
export function button(label, act, look = "btn") {
  const made = el("button", { class: look, type: "button" }, label);
  made.addEventListener("click", act);
  return made;
}

/** Calls `work` with a form that is sent, which sends nothing itself; also with one that a live region brings. */
export function onSubmit(selector, work) {
  document.addEventListener("submit", (event) => {
    if (!event.target.matches(selector)) return;
    event.preventDefault();
    void work(event.target);
  });
}

/** What a request of a button answers. The button is disabled until then. */
export async function whileDisabled(button, request) {
  button.disabled = true;
  try {
    return await request();
  } finally {
    button.disabled = false;
  }
}

/** Label of a button without its part for screen readers, which names the thing. */
export const verbOf = (button) =>
  [...button.childNodes]
    .filter((node) => node.nodeType === Node.TEXT_NODE)
    .map((node) => node.data)
    .join("")
    .trim();

/** Announces a text to screen readers. */
export function announce(text) {
  const region = document.getElementById("live-region");
  if (region) region.textContent = text;
}

let fading;
/** Shows a toast for a few seconds, with what can still be done about it. */
export function say(text, tone = "up", ...further) {
  document.querySelector(".toast")?.remove();
  clearTimeout(fading);
  const toast = el("p", { class: `toast ${tone}` }, text, ...further);
  // Inside the landmark of the content, where screen readers look for it.
  (document.querySelector("main") ?? document.body).append(toast);
  announce(text);
  fading = setTimeout(() => toast.remove(), tone === "up" && further.length === 0 ? 5000 : 12000);
}

/** Opens a dialog, which is removed when it closes. */
export function openDialog(attributes, ...children) {
  const dialog = el("dialog", attributes, ...children);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** Asks for a confirmation; `verb` is the label of the button that gives it. True when it was given. */
export function ask(text, verb) {
  const buttons = el(
    "div",
    { class: "actions" },
    el("button", { class: "btn primary", value: "yes" }, verb),
    el("button", { class: "btn", value: "no" }, "Cancel"),
  );
  const dialog = openDialog({ "aria-label": text }, el("form", { method: "dialog" }, el("p", {}, text), buttons));
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes")));
}
