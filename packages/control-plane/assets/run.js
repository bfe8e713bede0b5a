import { call, split } from "./api.js";
import { announce, el, say, whileDisabled } from "./dom.js";
import { clearErrors, readForm, showError } from "./form.js";
import { refresh } from "./live.js";
import { orgFetch } from "./org.js";

/** Shows that something runs, for how long already, until `done` is called. */
function progress(title, form = null) {
  const panel = form?.querySelector("[data-run]") ?? document.getElementById("run");
  const clock = el("span", { class: "muted" });
  panel.replaceChildren(
    el("p", {}, el("strong", {}, `${title}… `), clock),
    el("div", { class: "progress", role: "progressbar", "aria-label": title }, el("span")),
  );
  panel.hidden = false;
  announce(title);
  const started = performance.now();
  const ticking = setInterval(
    () => (clock.textContent = `${((performance.now() - started) / 1000).toFixed(1)} s`),
    100,
  );
  return (...content) => {
    clearInterval(ticking);
    panel.replaceChildren(...content);
    panel.hidden = content.length === 0;
  };
}

/** Longest error that is sent to be put into words: an address has room for about 16 kB. */
const maxError = 1000;

/** What a result says of an https URL whose port speaks http (net/tls.ts of the shared package). */
const noTls = "the server does not speak TLS on this port";

/** A result as the server draws it. `of` is `test`, `now`, or `region` for one of several. */
async function finding(of, result, warnings = [], form = null) {
  if (result.error === noTls) form?.dispatchEvent(new Event("no-tls", { bubbles: true }));
  const known = { ...result, error: result.error?.slice(0, maxError) };
  const query = new URLSearchParams({ of, result: JSON.stringify(known), fragment: "1" });
  const box = el("div");
  try {
    const reply = await orgFetch(`/monitors/finding?${query}`, { headers: { Accept: "text/html" } });
    if (!reply.ok) throw new Error(String(reply.status));
    box.innerHTML = await reply.text();
  } catch {
    box.append(el("p", {}, `${result.status} ${result.error ?? ""}`));
  }
  announce(box.querySelector("[data-said]")?.dataset.said ?? box.textContent);
  return [...box.childNodes, ...warnings.map((text) => el("p", { class: "muted" }, text))];
}

/** A result as shown: the status code of the server of a status page says nothing of what the page reports. */
const shownResult = ({ result, components }) => (components ? { ...result, http_status: null } : result);

/** The components of a status page, as a test lists them. */
const componentLine = (components = []) =>
  components.length === 0
    ? []
    : [
        el(
          "p",
          { class: "muted" },
          `Components: ${components.map(({ name, state }) => `${name} (${state})`).join(", ")}.`,
        ),
      ];

async function checkNow(button) {
  const done = progress("Checking");
  const answer = await whileDisabled(button, () => call("POST", button.dataset.checkNow));
  if (!answer.ok) {
    done();
    return say(answer.error.message, "down");
  }
  done(...(await finding("now", answer.data)));
  await refresh(true);
}

/** The regions that a form has chosen, as id and name. */
const chosenRegions = (form) =>
  [...form.querySelectorAll('[name="/regions"]:checked:enabled')].map((box) => ({
    id: box.value,
    name: box.closest("label").querySelector("strong").textContent,
  }));

const worstFirst = ["down", "error", "degraded", "up"];

/** Runs a check from several regions at once: a line for each as soon as it has answered, then the worst in full. */
async function testFrom(form, regions, check, { test: route, part }, isAuto) {
  const panel = document.getElementById("run");
  const lines = regions.map(({ name }) => el("div", {}, el("p", {}, el("strong", {}, `${name}: `), "Running…")));
  panel.replaceChildren(...lines);
  panel.hidden = false;
  announce("Testing");
  const [method, path] = split(route);
  const answers = await Promise.all(
    regions.map(async ({ id, name }, at) => {
      const answer = await call(method, `${path}?region=${encodeURIComponent(id)}`, check);
      const shown = answer.ok
        ? await finding("region", shownResult(answer.data))
        : [el("p", {}, el("strong", {}, `${name}: `), answer.error.message)];
      lines[at].replaceChildren(...shown);
      return answer;
    }),
  );
  const invalid = answers.find(({ status }) => status === 400);
  if (invalid) {
    panel.hidden = true;
    return isAuto || showError(form, invalid.error, part);
  }
  const results = answers.filter(({ ok }) => ok).map(({ data }) => data);
  const [worst] = results.sort((a, b) => worstFirst.indexOf(a.result.status) - worstFirst.indexOf(b.result.status));
  if (worst)
    panel.append(
      ...(await finding("test", shownResult(worst), worst.warnings, form)),
      ...componentLine(worst.components),
    );
}

/**
 * Tries what a form says before it is stored; of a channel that keeps its destination, the stored one. A test that
 * nobody asked for (`isAuto`) marks no errors.
 */
async function test(button, isAuto) {
  const { form } = button;
  if (!isAuto) clearErrors(form);
  const part = button.dataset.part;
  const whole = button.dataset.keep !== undefined;
  const secrets = form.querySelector("[data-stored]:enabled");
  if (secrets) return showError(form, { message: secrets.dataset.stored, field: secrets.dataset.pointer });
  const read = readForm(form, { under: part });
  if (read === null) return;
  const value = read.body?.[part.slice(1)];
  // The kind of a stored check is no control that can be changed, so it is not among the values.
  if (value && value.type === undefined) value.type = form.querySelector(`[name="${part}/type"]:checked`)?.value;
  const regions = chosenRegions(form);
  if (regions.length > 1) return whileDisabled(button, () => testFrom(form, regions, value, button.dataset, isAuto));
  const done = progress("Testing", form);
  const [method, path] = split(value ? button.dataset.test : button.dataset.testStored);
  const body = !value ? undefined : whole ? { [part.slice(1)]: value } : value;
  const answer = await whileDisabled(button, () => call(method, path, body));
  if (!answer.ok) {
    done();
    return isAuto || showError(form, answer.error, whole ? "" : part);
  }
  const { result, warnings, components } = answer.data;
  if (result) done(...(await finding("test", shownResult(answer.data), warnings, form)), ...componentLine(components));
  else {
    const which = value ? "destination typed here" : "stored destination";
    const words = button.dataset.testStored ? `Test message accepted by the ${which}.` : "Test message accepted.";
    // A toast would stand behind the dialog.
    if (form.closest("dialog")) return done(el("p", { role: "status" }, words));
    done();
    say(words);
  }
}

/** Runs the check of a button: of a form that is not stored yet, or of a stored monitor now. */
export const run = (button, isAuto = false) => (button.dataset.test ? test(button, isAuto) : checkNow(button));
