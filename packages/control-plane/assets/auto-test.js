// Runs the test of a new monitor's check by itself, each time that the check has changed and can be run.
import { bodyOf, Unreadable } from "./body.js";
import { run } from "./run.js";

/** Time for the values that follow from the one that was entered, ms. */
const settleMs = 300;

/** True for a check that changes nothing where it runs: no command, no payload, and no method but GET and HEAD. */
const onlyReads = ({ type, method = "GET", body, send }) =>
  type !== "exec" && ["GET", "HEAD"].includes(method) && !body && !send;

/** The check as it would be sent; null while a control is empty that must not be, or cannot be read. */
function checkIn(form, part) {
  try {
    return bodyOf(form, { under: part })?.[part.slice(1)] ?? null;
  } catch (error) {
    if (error instanceof Unreadable) return null;
    throw error;
  }
}

/** Makes the form with `data-auto` test itself. */
export function autoTest() {
  const button = document.querySelector("[data-auto]");
  const { form } = button;
  let tested = "";
  let timer;
  const attempt = () => {
    const check = checkIn(form, button.dataset.part);
    if (check === null || !onlyReads(check)) return;
    if (button.disabled) return later();
    const regions = [...form.querySelectorAll('[name="/regions"]:checked:enabled')].map(({ value }) => value);
    const now = JSON.stringify([check, regions]);
    if (now === tested) return;
    tested = now;
    void run(button, true);
  };
  const later = () => {
    clearTimeout(timer);
    timer = setTimeout(attempt, settleMs);
  };
  form.addEventListener("change", ({ target }) => {
    if (target.name === "/regions" || target.name.startsWith(`${button.dataset.part}/`)) later();
  });
  // An address that the page brought.
  later();
}
