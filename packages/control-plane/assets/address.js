// What people type as an address becomes what is checked: a bare host gets its scheme, a host with a port is split, and
// the name follows from it. The line below the field says how it was read, and offers the other ways.
import { announce, button, el } from "./dom.js";

const hasScheme = /^[a-z][a-z0-9+.-]*:\/\//i;

/** `https://acme.dev/` for `acme.dev`; null for a text that is no address yet. */
export function urlOf(text) {
  const typed = text.trim();
  if (typed === "" || /\s/.test(typed)) return null;
  try {
    const url = new URL(hasScheme.test(typed) ? typed : `https://${typed}`);
    return /^https?:$/.test(url.protocol) && (url.hostname.includes(".") || url.hostname === "localhost" || url.port)
      ? url
      : null;
  } catch {
    return null;
  }
}

/** Host and port of `db-1:5432` or of a URL; the port is null where none is said. */
export function hostAndPort(text) {
  const typed = text.trim();
  if (hasScheme.test(typed)) {
    const url = urlOf(typed);
    return url === null ? null : { host: url.hostname, port: url.port || (url.protocol === "http:" ? "80" : "443") };
  }
  const [, host, port] = /^(\[[0-9a-f:.]+\]|[^:/\s]+)(?::(\d{1,5}))?(?:\/.*)?$/i.exec(typed) ?? [];
  return host === undefined ? null : { host: host.replaceAll(/[[\]]/g, ""), port: port ?? null };
}

/** `api.acme.dev health`, from a URL or a host. */
function nameOf(text) {
  const url = urlOf(text);
  const host = (url?.hostname ?? text.trim()).replace(/^www\./, "");
  const path = (url?.pathname ?? "").split("/").filter((part) => part !== "");
  return [host, ...path].join(" ").slice(0, 200);
}

/** Puts a value into a control as if it had been typed. */
function put(control, value) {
  if (control.value === value) return;
  control.value = value;
  control.dispatchEvent(new Event("input", { bubbles: true }));
}

let suggested = "";
function suggestName(form, text) {
  const name = form.elements["/name"];
  if (name.value !== "" && name.value !== suggested) return;
  suggested = nameOf(text);
  put(name, suggested);
}

const chosen = (form, kind) => form.querySelector(`[name="/check/type"][value="${kind}"]`);

function portOnly(form, url) {
  const kind = chosen(form, "tcp");
  kind.checked = true;
  kind.dispatchEvent(new Event("change", { bubbles: true }));
  const part = kind.form.querySelector('[data-when="/check/type=tcp"]');
  put(part.querySelector('[name="/check/host"]'), url.hostname);
  put(part.querySelector('[name="/check/port"]'), url.port || (url.protocol === "http:" ? "80" : "443"));
  part.querySelector('[name="/check/host"]').focus();
  announce("Checks the port only.");
}

/** True for the URL of an HTTP check: other kinds have URLs of other schemes. */
const isHttpUrl = (control) =>
  control.name === "/check/url" && control.closest("[data-when]")?.dataset.when === "/check/type=http";

/** Shows how an address was read. */
function read(control) {
  const field = control.closest(".field");
  field.querySelector(".read")?.remove();
  const url = urlOf(control.value);
  if (url === null || !control.closest("[data-addressed]")) return;
  const other = url.protocol === "https:" ? "http" : "https";
  const line = el("p", { class: "read" }, el("span", {}, "Checked as ", el("span", { class: "mono" }, url.href)));
  const turned = new URL(url);
  turned.protocol = `${other}:`;
  line.append(button(`Use ${other}`, () => (put(control, turned.href), control.focus()), "link"));
  if (chosen(control.form, "tcp"))
    line.append(button("Check the port only", () => portOnly(control.form, url), "link"));
  field.append(line);
}

/** Takes a control that was left as people mean it. */
function settle(control) {
  if (isHttpUrl(control)) {
    const url = urlOf(control.value);
    if (url !== null && !hasScheme.test(control.value.trim())) {
      put(control, url.href);
      control.dataset.assumed = url.href;
    }
    if (url !== null) suggestName(control.form, control.value);
  } else if (/^\/check\/(host|domain)$/.test(control.name)) {
    const found = hostAndPort(control.value);
    if (found === null) return;
    put(control, found.host);
    const port = control.closest("[data-when]").querySelector('[name="/check/port"]');
    if (port && found.port !== null) put(port, found.port);
    suggestName(control.form, found.host);
  }
}

/** Takes http where nobody typed https and the test has found a port that speaks no TLS. */
function takeHttp(form) {
  const control = form.querySelector('[data-when="/check/type=http"] [name="/check/url"]');
  if (control.disabled || control.value !== control.dataset.assumed) return;
  put(control, control.value.replace(/^https/, "http"));
  announce("The port speaks http only. Checked by http.");
  control.dispatchEvent(new Event("change", { bubbles: true }));
}

/** Chooses the preset of the interval that the number has, and shows the number where none has it. */
function showInterval(box) {
  const number = box.querySelector('[name="/interval"]');
  for (const choice of box.querySelectorAll('[name="every"]')) {
    choice.disabled = choice.value !== "" && Number(choice.value) < Number(number.min);
    choice.closest("label").hidden = choice.disabled;
    choice.checked = !choice.disabled && choice.value === number.value;
  }
  const other = box.querySelector('[name="every"][value=""]');
  if (!box.querySelector('[name="every"]:checked')) other.checked = true;
  box.querySelector("[data-other]").hidden = !other.checked;
}

/** Lets the form of a monitor understand addresses and intervals. */
export function addresses() {
  document.addEventListener("input", (event) => isHttpUrl(event.target) && read(event.target));
  document.addEventListener("no-tls", (event) => takeHttp(event.target));
  document.addEventListener("change", (event) => {
    const { target } = event;
    if (target.closest("[data-addressed]")) settle(target);
    const box = target.form?.querySelector("[data-every]");
    if (!box) return;
    if (target.name === "/check/type") showInterval(box);
    if (target.name !== "every") return;
    const number = box.querySelector('[name="/interval"]');
    box.querySelector("[data-other]").hidden = target.value !== "";
    if (target.value === "") number.focus();
    else put(number, target.value);
  });
  const form = document.querySelector("form[data-address]");
  if (!form) return;
  const url = form.querySelector('[data-when="/check/type=http"] [name="/check/url"]');
  put(url, form.dataset.address);
  url.dispatchEvent(new Event("change", { bubbles: true }));
}
