import { localTimes, tickingTimes } from "./times.js";
import { toggles } from "./toggle.js";

toggles();
localTimes();
tickingTimes();
