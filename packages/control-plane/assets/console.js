import { actions } from "./actions.js";
import { channelDialogs } from "./add-channel.js";
import { charts } from "./chart.js";
import { forms } from "./form.js";
import { keys } from "./keys.js";
import { warnOnLeave } from "./leave.js";
import { live } from "./live.js";
import { maintenance } from "./maintenance.js";
import { onceForms } from "./once.js";
import { runs } from "./run.js";
import { localTimes, tickingTimes } from "./times.js";
import { toggles } from "./toggle.js";

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
keys();
maintenance();
live();
// Modules of one page are loaded there only.
if (document.getElementById("bulk")) void import("./bulk.js").then((module) => module.bulk());
if (document.querySelector("[data-operator]")) void import("./operator.js").then((module) => module.operator());
