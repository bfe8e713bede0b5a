// The owner of each table among the domains of packages/control-plane/src. infra/scripts/sql-rules.mjs enforces it.

/**
 * owns: only this folder writes these tables. joins: tables of other owners that its statements read, with the reason:
 * a list of 50 rows without a join would take 50 statements. writes: exceptions, with the reason.
 */
export const folders = {
  "monitoring/agents": {
    owns: ["agents"],
    joins: { "number of targets per region that wait for an agent": ["orgs", "regions", "target_regions", "targets"] },
  },
  "access/audit": { owns: ["audit_log"], joins: { "email of the actor": ["users"] } },
  "access/auth": {
    owns: [
      "api_tokens",
      "login_attempts",
      "magic_link_requests",
      "passkeys",
      "pending_sign_ins",
      "recovery_codes",
      "sessions",
      "sign_in_links",
      "sign_in_turns",
      "totp_factors",
      "used_challenges",
      "user_identities",
      "users",
    ],
    joins: {
      "one statement finds caller, organisation and role": ["memberships", "orgs"],
      "connection and client of an access token": ["oauth_connections"],
      "one statement finds an MCP client and its session": ["mcp_sessions"],
    },
    writes: { "a new user gets an organisation in the same transaction": ["memberships", "orgs"] },
  },
  "alerting/acknowledge": {
    owns: [],
    joins: { "the causes of the incidents of a message": ["incidents", "regions", "targets"] },
  },
  "alerting/causes": {
    owns: [],
    joins: { "monitors with a tag, and those that a region runs": ["target_regions", "targets"] },
  },
  "alerting/channel-links": { owns: ["channel_links"], joins: { "a code of a deleted organisation": ["orgs"] } },
  "alerting/channels": {
    owns: ["channel_verifications", "channels", "push_keys"],
    joins: {
      "organisation of a verification mail": ["orgs"],
      "monitors that use a channel, listed or by their tags": ["target_alerts", "targets"],
      "the person of a device": ["users"],
    },
    writes: {
      "a device that another person registers loses its bindings": ["target_alerts"],
      "a new config ends a failing spell": ["channel_health"],
      "new hours have what waits for them looked at": ["deliveries"],
      "rounds that are turned on or off begin anew": ["channel_rounds", "deliveries"],
      "a deleted channel leaves the escalation ladders": ["orgs", "targets"],
    },
  },
  "platform/db": {
    owns: ["counters", "signing_keys", "write_probe"],
    joins: { "a restore asks whether the database is empty": ["orgs", "targets", "users"] },
  },
  "interfaces/declared": {
    owns: ["declared_files", "declared_projects"],
    joins: {
      "email of who applied": ["users"],
      "objects of a project": ["channels", "maintenance_windows", "status_pages", "targets"],
    },
  },
  "interfaces/hooks": { owns: ["hook_events"] },
  "alerting/incidents": {
    owns: [
      "failure_snapshots",
      "incident_events",
      "incident_outages",
      "group_spans",
      "incident_updates",
      "incidents",
      "target_groups",
      "target_states",
    ],
    joins: {
      "name of the actor of an event": ["api_tokens", "users"],
      "held notices of a deleted organisation stay held": ["orgs"],
      "disabled regions have no vote": ["regions"],
      "whether a notice was written": ["deliveries"],
      "channels of a monitor and of an escalation ladder": ["channels", "target_alerts"],
      "snoozes hold notices": ["snoozes"],
      "dependencies and groups hold openings, and who is checked once more": [
        "group_members",
        "target_dependencies",
        "target_regions",
      ],
      "active maintenance windows": ["maintenance_occurrences", "maintenance_window_targets", "maintenance_windows"],
      "name of the monitor, and whether it keeps failed responses": ["targets"],
      "incidents on status pages, and whether these show them": [
        "incident_publications",
        "status_page_components",
        "status_pages",
      ],
    },
  },
  "alerting/snoozes": { owns: ["snoozes"], joins: { "monitors that a snooze names": ["targets"] } },
  operator: {
    owns: ["heartbeat", "nightly_runs", "operator_notices"],
    joins: {
      "conditions of the heartbeat": ["channel_health", "deliveries", "orgs", "target_states", "targets"],
    },
  },
  "alerting/deliveries": {
    owns: [
      "channel_alert_incidents",
      "channel_alerts",
      "channel_health",
      "channel_rounds",
      "deliveries",
      "delivery_attempts",
    ],
    joins: {
      "a region as a cause, by its name": ["regions"],
      "a claimed delivery with its channel": ["channels", "orgs"],
      "a message with its monitors": ["incidents", "targets"],
      "the alert of a monitor that flaps stays open": ["target_states"],
      "who has acknowledged the incident of a notice": ["incident_events", "incidents"],
      "channels that a notice is for": ["target_alerts"],
      "what flaps may be acknowledged while it is up": ["target_states"],
      "owners of a failing channel, and the person of a device": ["memberships", "users"],
    },
  },
  "publishing/entries": {
    owns: [],
    joins: {
      "published incidents of a page by their cause": [
        "incident_publications",
        "incidents",
        "status_page_components",
        "status_pages",
        "target_dependencies",
        "targets",
      ],
    },
  },
  "publishing/subscribers": {
    owns: ["subscriber_deliveries", "subscriber_departures", "subscriber_messages", "subscribers"],
    joins: {
      "states that are set by hand": ["component_states"],
      "messages of pages, from the timeline of incidents": [
        "incident_events",
        "incident_publications",
        "incident_updates",
        "incidents",
        "status_page_components",
        "status_pages",
        "targets",
      ],
      "maintenance windows on pages": ["maintenance_occurrences", "maintenance_window_targets", "maintenance_windows"],
      "alerts go first, unless their channel fails": ["channel_health", "channels", "deliveries"],
    },
  },
  "alerting/maintenance": {
    owns: ["maintenance_cancellations", "maintenance_occurrences", "maintenance_window_targets", "maintenance_windows"],
    joins: {
      "the targets of a new window, locked, and their names": ["targets"],
      "status pages that show a window": ["status_page_components", "status_pages"],
    },
  },
  "interfaces/mcp": {
    owns: ["mcp_audit", "mcp_elicitations", "mcp_sessions"],
    joins: { "email of the user of a call": ["users"] },
  },
  "operator/metrics": {
    owns: [],
    joins: {
      "counts of the whole instance": [
        "agents",
        "channel_health",
        "channels",
        "deliveries",
        "incidents",
        "operator_notices",
        "orgs",
        "targets",
      ],
    },
  },
  "access/oauth": {
    owns: ["oauth_clients", "oauth_codes", "oauth_connections", "oauth_consents", "oauth_refresh_tokens"],
    joins: {
      "a grant needs a member of an organisation that is not deleted": ["memberships", "orgs"],
      "last use of the access tokens of a connection": ["api_tokens"],
    },
  },
  "access/orgs": {
    owns: ["invitations", "memberships", "orgs"],
    joins: {
      "the token's organisation": ["api_tokens"],
      "the second factor of the caller's session": ["sessions"],
      "email of a member": ["users"],
      "quotas against present counts": [
        "channels",
        "incident_updates",
        "incidents",
        "maintenance_windows",
        "shares",
        "update_templates",
        "certificates",
        "status_page_components",
        "status_pages",
        "targets",
      ],
    },
  },
  "monitoring/heartbeats": {
    owns: [
      "heartbeat_addresses",
      "heartbeat_agents",
      "heartbeat_creations",
      "heartbeat_pings",
      "heartbeat_spans",
      "heartbeat_watch",
      "heartbeats",
    ],
    joins: {
      "policy, check and organisation of a heartbeat": ["orgs", "targets"],
      "evidence is locked before windows": ["target_states"],
      "uptime of groups is by time too": ["group_spans"],
    },
  },
  "monitoring/history": {
    owns: ["imported_days"],
    joins: { "organisation of the target": ["targets"] },
  },
  "monitoring/pipeline": {
    owns: ["on_demand_runs"],
    joins: {
      "checks of an agent": ["deleted_targets", "orgs", "target_regions", "target_states", "targets"],
      "target, region and organisation of a result": ["regions"],
    },
    writes: { "one statement per batch inserts the results": ["results", "results_late"] },
  },
  "access/plans": { owns: ["plans", "quota_events"], joins: { "plan of the organisation": ["orgs"] } },
  "publishing/public": {
    owns: ["mirrors"],
    joins: {
      "whether a page has changed since it was copied": [
        "incident_events",
        "maintenance_cancellations",
        "maintenance_occurrences",
        "maintenance_windows",
      ],
      "a page in one statement": [
        "component_states",
        "incident_outages",
        "incident_publications",
        "incident_updates",
        "incidents",
        "status_page_components",
        "status_pages",
        "targets",
      ],
    },
  },
  "monitoring/regions": { owns: ["regions"] },
  "monitoring/results": {
    owns: [
      "changes_hourly",
      "changes_packed",
      "hours_packed",
      "issued_slots",
      "latency_hourly",
      "org_hours",
      "org_hours_new",
      "org_seconds",
      "pack_progress",
      "results",
      "results_daily",
      "results_hourly",
      "results_late",
      "results_packed",
      "rollup_dirty",
      "rollup_progress",
    ],
    joins: {
      "organisation and interval of the target": ["deleted_targets", "target_regions", "targets"],
      "newest result of a target": ["target_states"],
      "days that another product counted": ["imported_days"],
    },
    writes: { "details of the newest result": ["target_states"], "counts of deleted targets": ["deleted_targets"] },
  },
  "monitoring/certificates": {
    owns: ["certificates"],
    joins: {
      "targets that name a certificate": ["targets"],
      "organisation of a certificate that ends": ["orgs"],
    },
    writes: { "agents are sent the targets whose certificate has changed": ["targets"] },
  },
  "alerting/update-templates": { owns: ["update_templates"] },
  "publishing/reports": {
    owns: ["report_recipients"],
    joins: {
      "time zone and name of the organisation of a mail": ["orgs"],
      "a disabled channel gets no mail": ["channels"],
      "name of the status page of a mail": ["status_pages"],
      "an owner, with whose rights a report is read": ["memberships"],
    },
  },
  "publishing/publications": {
    owns: ["incident_publications"],
    joins: { "pages with the monitor of an incident": ["incidents", "status_page_components", "status_pages"] },
    writes: { "an incident that is published on all pages, or on none": ["incidents"] },
  },
  "publishing/shares": {
    owns: ["shares"],
    joins: { "a link of a deleted organisation is not found": ["orgs"], "the shared monitor, locked": ["targets"] },
  },
  "access/sign-in": { owns: ["reader_sessions", "sign_in_flows"] },
  "publishing/page-access": {
    owns: ["page_links", "page_readers"],
    joins: { "who a reader is, at each request": ["memberships", "reader_sessions", "sessions"] },
  },
  "publishing/status-pages": {
    owns: [
      "component_states",
      "reader_tokens",
      "status_page_components",
      "status_page_domains",
      "status_page_logos",
      "status_pages",
    ],
    joins: {
      "name, state and organisation of a component": ["orgs", "target_states", "targets"],
      "incidents that a page never published": ["incidents"],
    },
    writes: { "they stay unpublished when the page publishes all": ["incident_publications"] },
  },
  "monitoring/targets": {
    owns: [
      "deleted_targets",
      "group_members",
      "pins",
      "target_alerts",
      "target_dependencies",
      "target_regions",
      "targets",
    ],
    joins: {
      "components that a recent test has listed": ["on_demand_runs"],
      "state, open incident and regions in a list": ["incidents", "regions", "target_states"],
      "addresses of a heartbeat": ["heartbeat_addresses"],
      "uptime as sort key": [
        "group_spans",
        "heartbeat_spans",
        "heartbeats",
        "imported_days",
        "incident_outages",
        "incidents",
      ],
      "members of a group that count": ["target_groups"],
      "whether an incident is on a status page": ["status_page_components"],
      "steps of the setup checklist": ["channels", "orgs", "status_pages"],
      "monitors without an enabled channel": ["channels"],
    },
    writes: { "the state row has the lifetime of its target": ["target_states"] },
  },
};
