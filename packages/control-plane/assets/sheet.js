import { openDialog } from "./dom.js";

// A part of the page as a sheet at the bottom of a phone: a dialog, so that focus, Escape and Back to the page are its.

/** Keeps the sheet above the keyboard of the phone, which covers the page without making it smaller. */
function aboveKeyboard(dialog) {
  const view = window.visualViewport;
  if (!view) return () => undefined;
  const place = () => {
    dialog.style.bottom = `${Math.max(0, innerHeight - view.height - view.offsetTop)}px`;
    dialog.style.maxHeight = `${view.height - 16}px`;
  };
  place();
  view.addEventListener("resize", place);
  view.addEventListener("scroll", place);
  return () => {
    view.removeEventListener("resize", place);
    view.removeEventListener("scroll", place);
  };
}

/** Shows the part that a link leads to as a sheet. It goes back to its place when the sheet closes. */
export function openSheet(link) {
  const part = document.getElementById(link.dataset.sheet);
  const place = document.createComment("");
  part.replaceWith(place);
  const dialog = openDialog({ class: "bottom", "aria-labelledby": part.getAttribute("aria-labelledby") }, part);
  const done = aboveKeyboard(dialog);
  part.querySelector("textarea, input:not([type=radio])")?.focus();
  // A touch beside the sheet closes it. What is typed stays in the form.
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  dialog.addEventListener("close", () => {
    done();
    place.replaceWith(part);
    // The live region may have been replaced: its link has the focus again.
    document.querySelector(`[data-sheet="${part.id}"]`)?.focus();
  });
}
