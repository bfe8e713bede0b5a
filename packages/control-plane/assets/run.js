import { call, split } from "./api.js";
import { announce, el, ms, say, state } from "./dom.js";
import { clearErrors, readForm, showError } from "./form.js";
import { refresh } from "./live.js";

const words = { up: "Up", down: "Down", degraded: "Degraded", error: "Error" };
const phases = [
  ["dns", "DNS", "dns_ms"],
  ["connect", "Connect", "connect_ms"],
  ["tls", "TLS", "tls_ms"],
  ["ttfb", "First byte", "ttfb_ms"],
];

/** Shows that something runs, for how long already, until `done` is called. */
function progress(title) {
  const panel = document.getElementById("run");
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

const svg = (tag, attributes) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
};

/** An error as a person reads it: the JSON document that some kinds write becomes `days remaining 5, …`. */
function readable(error) {
  if (!error?.startsWith("{")) return error;
  try {
    return Object.entries(JSON.parse(error))
      .filter(([, value]) => value !== null)
      .map(([key, value]) => `${key.replaceAll("_", " ")} ${value}`)
      .join(", ");
  } catch {
    return error;
  }
}

/** A finding as state, words and phases. */
function finding(title, result, warnings = []) {
  const known = phases
    .map(([name, label, key]) => ({ name, label, value: result[key] }))
    .filter((part) => part.value !== null && part.value !== undefined);
  const rest = (result.total_ms ?? 0) - known.reduce((sum, part) => sum + part.value, 0);
  if (rest > 0.005 && known.length > 0) known.push({ name: "rest", label: "Body and rest", value: rest });
  const total = known.reduce((sum, part) => sum + part.value, 0);
  const bar = svg("svg", { class: "bar", "aria-hidden": "true" });
  let left = 0;
  for (const part of known) {
    bar.append(
      svg("rect", {
        class: `ph-${part.name}`,
        x: `${(left / total) * 100}%`,
        width: `${(part.value / total) * 100}%`,
        height: 12,
      }),
    );
    left += part.value;
  }
  const answer = [result.http_status, readable(result.error)]
    .filter((part) => part !== null && part !== undefined)
    .join(" ");
  announce(`${title}: ${words[result.status]}. ${answer}`);
  return [
    el(
      "p",
      {},
      el("strong", {}, `${title}: `),
      state(result.status, words[result.status]),
      ` ${answer} `,
      el("span", { class: "muted" }, `${ms(result.total_ms)}${result.region ? ` from ${result.region}` : ""}`),
    ),
    total > 0 ? bar : null,
    total > 0
      ? el(
          "dl",
          { class: "legend across" },
          ...known.map((part) =>
            el(
              "div",
              {},
              el("dt", {}, el("i", { class: `dot ph-${part.name}` }), part.label),
              el("dd", {}, ms(part.value)),
            ),
          ),
        )
      : null,
    ...warnings.map((text) => el("p", { class: "muted" }, text)),
  ].filter((node) => node !== null);
}

async function checkNow(button) {
  button.disabled = true;
  const done = progress("Checking");
  const answer = await call("POST", button.dataset.checkNow);
  button.disabled = false;
  if (!answer.ok) {
    done();
    return say(answer.error.message, "down");
  }
  done(...finding("Checked now", answer.data));
  await refresh(true);
}

/** Tries what a form says before it is stored; of a channel that keeps its destination, the stored one. */
async function test(button) {
  const { form } = button;
  clearErrors(form);
  const part = button.dataset.part;
  const whole = button.dataset.keep !== undefined;
  const secrets = form.querySelector("[data-stored]:enabled");
  if (secrets) return showError(form, { message: secrets.dataset.stored, field: secrets.dataset.pointer });
  const read = readForm(form, { under: part });
  if (read === null) return;
  const value = read.body?.[part.slice(1)];
  // The kind of a stored check is no control that can be changed, so it is not among the values.
  if (value && value.type === undefined) value.type = form.querySelector(`[name="${part}/type"]:checked`)?.value;
  button.disabled = true;
  const done = progress("Testing");
  const [method, path] = split(value ? button.dataset.test : button.dataset.testStored);
  const answer = await call(method, path, !value ? undefined : whole ? { [part.slice(1)]: value } : value);
  button.disabled = false;
  if (!answer.ok) {
    done();
    return showError(form, answer.error, whole ? "" : part);
  }
  if (answer.data.result) done(...finding("Test", answer.data.result, answer.data.warnings));
  else {
    done();
    const which = value ? "destination typed here" : "stored destination";
    say(button.dataset.testStored ? `Test message accepted by the ${which}.` : "Test message accepted.");
  }
}

/** Lets the buttons that run a check do so. */
export function runs() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-check-now], [data-test]");
    if (button) void (button.dataset.test ? test(button) : checkNow(button));
  });
}
