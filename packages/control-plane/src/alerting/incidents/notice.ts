import { errorInWords } from "@statusmesh/shared/checks";
import { type OutageTimes, outageSecs } from "./outages.ts";
import type { Notice, Reason, Severity } from "./schema.ts";

/** The part of an incident that a notice shows. */
export interface NoticeSubject extends OutageTimes {
  id: string;
  target_id: string;
  severity: Severity;
  started_at: Date;
  ended_at: Date | null;
  error_sample: string | null;
  regions_down: string[];
  regions_up: string[];
}

/** The notice of an incident as it is now. `publicUrl` is `server.public_url`. */
export function noticeOf(incident: NoticeSubject, monitorName: string, reason: Reason, publicUrl: string): Notice {
  return {
    incident_id: incident.id,
    target_id: incident.target_id,
    monitor_name: monitorName,
    reason,
    severity: incident.severity,
    urgency: incident.severity === "minor" ? "low" : "high",
    started_at: incident.started_at.toISOString(),
    ended_at: incident.ended_at?.toISOString() ?? null,
    outage_since: incident.outage_since?.toISOString() ?? null,
    duration_secs: incident.ended_at === null ? null : outageSecs(incident),
    error_sample: incident.error_sample === null ? null : errorInWords(incident.error_sample),
    regions_down: incident.regions_down,
    regions_up: incident.regions_up,
    url: `${publicUrl}/incidents/${incident.id}`,
  };
}
