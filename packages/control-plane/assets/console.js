import { actions } from "./actions.js";
import { channelDialogs } from "./add-channel.js";
import { charts } from "./chart.js";
import { forms } from "./form.js";
import { keys } from "./keys.js";
import { warnOnLeave } from "./leave.js";
import { live } from "./live.js";
import { maintenance } from "./maintenance.js";
import { onceForms } from "./once.js";
import { organisation } from "./org.js";
import { ranges } from "./range.js";
import { runs } from "./run.js";
import { localTimes, tickingTimes } from "./times.js";
import { toggles } from "./toggle.js";

organisation();
toggles();
localTimes();
tickingTimes();
forms();
warnOnLeave();
onceForms();
actions();
runs();
channelDialogs();
charts();
ranges();
keys();
maintenance();
live();
// Modules of one page are loaded there only.
if (document.getElementById("import")) void import("./import.js").then((module) => module.importing());
if (document.querySelector("[data-every]")) void import("./address.js").then((module) => module.addresses());
if (document.getElementById("bulk")) void import("./bulk.js").then((module) => module.bulk());
if (document.querySelector("[data-operator]")) void import("./operator.js").then((module) => module.operator());
if (document.getElementById("installation")) void import("./installation.js").then((module) => module.installation());
if (document.querySelector("[data-builder]")) void import("./builder.js").then((module) => module.builder());
if (document.querySelector("[data-managed]")) void import("./managed.js").then((module) => module.changesAsYaml());
document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-export]");
  if (button) void import("./exports.js").then((module) => module.exportOf(button));
});
if (document.querySelector("form:is([data-notes], [data-draft], [data-preview-form]), [data-template]"))
  void import("./preview.js").then((module) => module.previews());
if (document.querySelector("[data-image]")) void import("./upload.js").then((module) => module.imagePreviews());
