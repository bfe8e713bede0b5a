import type { ServerResponse } from "node:http";
import type { Received } from "./sink.ts";

/** An alert as its receiver has it. */
interface PagedAlert {
  key: string;
  state: "triggered" | "acknowledged" | "resolved";
  text: string;
  details: string;
}

interface PagerEvent {
  type: "trigger" | "update" | "acknowledge" | "resolve";
  key: string;
  at: number;
}

/**
 * What a server of PagerDuty (Events API v2) or Opsgenie (Alert API) does: a trigger of a key without an open alert
 * opens one and pages, one with it changes its texts and pages nobody; PagerDuty by the event, Opsgenie by a path.
 */
export function openPager(now: () => number) {
  const alerts: PagedAlert[] = [];
  const events: PagerEvent[] = [];
  const openOf = (key: string) => alerts.find((alert) => alert.key === key && alert.state !== "resolved");

  function handle(
    type: PagerEvent["type"],
    key: string,
    { text, details }: { text?: string; details?: string } = {},
  ): void {
    const alert = openOf(key);
    events.push({ type: type === "trigger" && alert !== undefined ? "update" : type, key, at: now() });
    if (alert === undefined) {
      if (type === "trigger") alerts.push({ key, state: "triggered", text: text ?? "", details: details ?? "" });
      return;
    }
    if (type === "resolve") alert.state = "resolved";
    else if (type === "acknowledge") alert.state = "acknowledged";
    else {
      alert.text = text ?? alert.text;
      alert.details = details ?? alert.details;
    }
  }

  function answer({ path, body }: Received, reply: ServerResponse): void {
    const sent = JSON.parse(body.toString()) as Record<string, string> & { payload?: { summary: string } };
    const [, , resource, key = "", action] = new URL(path, "https://pager").pathname.split("/");
    if (resource === "enqueue")
      handle(sent["event_action"] as "trigger", sent["dedup_key"]!, { text: sent.payload?.summary ?? "" });
    else if (key === "") handle("trigger", sent["alias"]!, { text: sent["message"]!, details: sent["description"]! });
    else if (action === "message") handle("update", key, { text: sent["message"]! });
    else if (action === "description") handle("update", key, { details: sent["description"]! });
    else handle(action === "close" ? "resolve" : "acknowledge", key);
    reply.writeHead(202, { "content-type": "application/json" }).end("{}");
  }

  return {
    answer,
    events: (): readonly PagerEvent[] => events,
    open: (): readonly PagedAlert[] => alerts.filter(({ state }) => state !== "resolved"),
    /** Alerts that have paged somebody. */
    pages: (): number => alerts.length,
    updates: (): number => events.filter(({ type }) => type === "update").length,
  };
}
