import { actions } from "./actions.js";
import { onSubmit } from "./dom.js";
import { forms } from "./form.js";
import { keys } from "./keys.js";
import { warnOnLeave } from "./leave.js";
import { organisation } from "./org.js";
import { localTimes, tickingTimes } from "./times.js";
import { toggles } from "./toggle.js";

organisation();
toggles();
localTimes();
tickingTimes();
forms();
warnOnLeave();
actions();
keys();

/** Modules that few pages need, each loaded where the page has the part, also one that its live region brings. */
const parts = new Set([
  ["#live", () => import("./live.js").then((module) => module.live())],
  [".chart, .beatbox", () => import("./chart.js").then((module) => module.charts())],
  [".chart, [data-range]", () => import("./range.js").then((module) => module.ranges())],
  ["[data-picker]", () => import("./picker.js").then((module) => module.pickers())],
  [
    "[data-window-form], [data-month], [data-span]",
    () => import("./maintenance.js").then((module) => module.maintenance()),
  ],
  ["#import", () => import("./import.js").then((module) => module.importing())],
  ["[data-auto]", () => import("./auto-test.js").then((module) => module.autoTest())],
  ["[data-every]", () => import("./address.js").then((module) => module.addresses())],
  ["#bulk", () => import("./bulk.js").then((module) => module.bulk())],
  ["[data-operator]", () => import("./operator.js").then((module) => module.operator())],
  ["#installation", () => import("./installation.js").then((module) => module.installation())],
  ["[data-builder]", () => import("./builder.js").then((module) => module.builder())],
  ["[data-managed]", () => import("./managed.js").then((module) => module.changesAsYaml())],
  [
    "form:is([data-notes], [data-draft], [data-preview-form]), [data-template]",
    () => import("./preview.js").then((module) => module.previews()),
  ],
  ["[data-passkeys]", () => import("./passkeys.js").then((module) => module.passkeys())],
  ["form[data-slug]", () => import("./slug.js").then((module) => module.slugs())],
  ["[data-devices]", () => import("./devices.js").then((module) => module.devices())],
  ["[data-second-factor]", () => import("./second-factor.js").then((module) => module.secondFactor())],
  ["[data-image]", () => import("./upload.js").then((module) => module.imagePreviews())],
]);
function loadParts() {
  for (const part of parts) {
    const [selector, load] = part;
    if (document.querySelector(selector) === null) continue;
    parts.delete(part);
    void load();
  }
}
loadParts();
document.addEventListener("refreshed", loadParts);

/** Modules that are loaded when something is clicked or sent that they handle. */
document.addEventListener("click", (event) => {
  const near = (selector) => event.target.closest?.(selector);
  const exporter = near("[data-export]");
  if (exporter) void import("./exports.js").then((module) => module.exportOf(exporter));
  const runner = near("[data-check-now], [data-test]");
  if (runner) void import("./run.js").then((module) => module.run(runner));
  const link = near("a:is([data-add-channel], [data-sheet])");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  if (link.dataset.sheet) void import("./sheet.js").then((module) => module.openSheet(link));
  else void import("./add-channel.js").then((module) => module.addChannel(link));
});
onSubmit("[data-once]", (form) => import("./once.js").then((module) => module.submitOnce(form)));
