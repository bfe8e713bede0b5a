import { call } from "./api.js";
import { textOf } from "./base64url.js";
import { nameOfBrowser } from "./browser-name.js";
import { onSubmit, say, whileDisabled } from "./dom.js";
import { clearErrors, showError } from "./form.js";
import { leaveFor } from "./leave.js";

const path = "/api/v1/notification-channels/devices";
const worker = "/assets/push-worker.js";

const isApple = () =>
  /iPhone|iPad|iPod/.test(navigator.userAgent) || (navigator.platform === "MacIntel" && navigator.maxTouchPoints > 1);
const isInstalled = () => navigator.standalone === true || matchMedia("(display-mode: standalone)").matches;

/** Why this browser cannot be notified: the name of a text of the page; null where it can. */
function obstacle() {
  if (!isSecureContext) return "insecure";
  if (isApple() && !isInstalled()) return "install";
  if (!("serviceWorker" in navigator) || !("PushManager" in window) || !("Notification" in window)) return "unable";
  return Notification.permission === "denied" ? "denied" : null;
}

function showText(box, name) {
  for (const text of box.querySelectorAll("[data-state]")) text.hidden = text.dataset.state !== name;
}

/** The subscription of this browser with the key of the installation; one with another key is replaced. */
async function subscribe(key) {
  await navigator.serviceWorker.register(worker, { scope: "/" });
  const { pushManager } = await navigator.serviceWorker.ready;
  const before = await pushManager.getSubscription();
  if (before) {
    if (textOf(before.options.applicationServerKey) === key) return before;
    await before.unsubscribe();
  }
  return await pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
}

async function register(form) {
  clearErrors(form);
  // First: browsers ask only while they handle the press of a button.
  if ((await Notification.requestPermission()) !== "granted") return showText(form.parentElement, "denied");
  const key = await call("GET", `${path}/key`);
  if (!key.ok) return showError(form, key.error);
  let subscription;
  try {
    subscription = await subscribe(key.data.public_key);
  } catch (error) {
    const message = `The browser could not subscribe to its push service: ${error.message}`;
    return showError(form, { message, field: null });
  }
  const { value: name } = form.elements["/name"];
  const body = { name, private: form.elements["/private"].checked, subscription: subscription.toJSON() };
  const answer = await call("POST", path, body);
  if (!answer.ok) return showError(form, answer.error);
  const next = form.dataset.next;
  if (next) return leaveFor(next.replace("{id}", answer.data.id));
  say("This device is registered.");
  location.reload();
}

/** Lets the box "Notify this device" work, or says what this browser lacks. */
export function devices() {
  const box = document.querySelector("[data-devices]");
  const name = box.querySelector("[name='/name']");
  if (name.value === "") name.value = nameOfBrowser();
  showText(box, obstacle() ?? "ready");
  onSubmit("[data-device]", (form) => whileDisabled(form.querySelector("[type=submit]"), () => register(form)));
}
