export { listOutages, outageSecs, outageState, outagesOf, type Outage } from "./outages.ts";
export {
  acknowledgeWithUpdate,
  incidentMetrics,
  incidentReport,
  incidentSpans,
  incidentTotals,
  incidentsOnPages,
  type IncidentSpan,
  type IncidentTotals,
} from "./reports.ts";
