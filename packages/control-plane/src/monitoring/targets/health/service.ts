export { causesOf, idOfNumber, measuredMonitors, monitorStates, monitorsAfter, orgHealth } from "./health.ts";
export { type ReportedRow } from "./reported-queries.ts";
