import { actions } from "./actions.js";
import { charts } from "./chart.js";
import { forms } from "./form.js";
import { keys } from "./keys.js";
import { live } from "./live.js";
import { runs } from "./run.js";
import { localTimes, tickingTimes } from "./times.js";
import { toggles } from "./toggle.js";

toggles();
localTimes();
tickingTimes();
forms();
actions();
runs();
charts();
keys();
live();
