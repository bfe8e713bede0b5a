import type { Severity } from "@statusmesh/shared/severity";
import { type Alert, type Content, single } from "../sending/content.ts";
import { maxNameLength, plain } from "../sending/message-text.ts";
import type { ChannelMessage } from "./kind.ts";

/** The alert of a message to a pager. One without an alert has its own: a test message ends it at once. */
export function alertOf({ content, deliveryId }: ChannelMessage): Alert {
  if (content.alert !== undefined) return content.alert;
  const { kind, notice } = single(content);
  if (kind === "test") return { key: `test-${deliveryId}`, events: ["trigger", "resolve"] };
  return { key: notice.incident_id, events: [notice.reason === "resolved" ? "resolve" : "trigger"] };
}

/** What an alert is about: a monitor, or the host or tag of several; since when (RFC 3339). A test has no severity. */
export function alertSubject(content: Content): { severity: Severity | null; subject: string; since: string } {
  if (content.kind !== "round") {
    const { kind, notice } = single(content);
    const severity = kind === "test" ? null : notice.severity;
    return { severity, subject: plain(notice.monitor_name, maxNameLength), since: notice.started_at };
  }
  const { severity, lines } = content.round;
  const { cause, names, since, began_at } = lines[0]!;
  return { severity, subject: plain(cause?.value ?? names[0] ?? "", maxNameLength), since: since ?? began_at! };
}
