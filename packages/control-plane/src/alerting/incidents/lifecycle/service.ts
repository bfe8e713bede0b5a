export {
  acknowledgeFromChannel,
  acknowledgeIncident,
  acknowledgeManyFromChannel,
  bulkIncidentAction,
  resolveIncident,
  unacknowledgeIncident,
} from "./lifecycle.ts";
export { reportIncident, reportIncidents } from "./report.ts";
