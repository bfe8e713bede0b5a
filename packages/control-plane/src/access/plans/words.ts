import type { Limit } from "./schema.ts";

/** Limits of a plan as screens name them. */
export const limitWords: Readonly<Record<Limit, string>> = {
  max_targets: "Monitors",
  max_members: "Members",
  max_pending_invitations: "Pending invitations",
  max_status_pages: "Status pages",
  max_public_components: "Public components",
  max_components_per_page: "Components of one page",
  max_updates_per_incident: "Updates of one open incident",
  max_notification_channels: "Channels",
  max_maintenance_windows: "Unfinished maintenance windows",
  max_share_links_per_monitor: "Share links of one monitor",
  max_shared_monitors: "Monitors with share links",
  min_check_interval_secs: "Shortest check interval (seconds)",
  api_writes_per_min: "API writes a minute",
  api_reads_per_min: "API reads a minute",
  bulk_ops_per_min: "Bulk requests a minute",
  test_now_per_min: "Tests a minute",
  check_now_per_min: "Checks on demand a minute",
};
