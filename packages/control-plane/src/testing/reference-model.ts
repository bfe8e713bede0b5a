/*
 * A reference of the incident engine for tests: one target, results in slot order, one channel. Written from the rules
 * and not from the code: no replay, no database, one step after another. Times are Unix ms.
 */

export type Grade = "passed" | "degraded" | "failed";

/** Tests write runs as text: P passed, D degraded, F failed. */
export function gradeOfLetter(letter: string): Grade {
  if (letter === "P") return "passed";
  return letter === "D" ? "degraded" : "failed";
}

type Reason = "opened" | "reminder" | "escalated" | "reopened" | "resolved";

interface Region {
  vote: "failing" | "passing" | null;
  kind: "passing" | "failing";
  streak: number;
  major: boolean;
  /** Degraded runs in a row. */
  degraded: number;
  last: number;
}

interface Notice {
  reason: Reason;
  at: number;
}

interface ModelIncident {
  open: boolean;
  closedAt: number;
  createdAt: number;
  /** By the evidence: of what fails now, the highest since it opened or reopened, and the highest ever. */
  severity: "minor" | "major";
  notified: "minor" | "major";
  peak: "minor" | "major";
  pinned: "minor" | "major" | "critical" | null;
  /** What down meant at the target while it was open last. */
  down: "major" | "critical";
  reopened: number;
  acknowledged: boolean;
  reminderDue: number | null;
  held: Exclude<Reason, "reminder"> | null;
  notices: Notice[];
}

const livenessMs = 130_000;
const reopenMs = 300_000;
const renotifyMs = 60_000;

/** The rules as a machine. */
export class ReferenceModel {
  confirmations = 2;
  policy: "any" | "all" = "any";
  regions = new Map<string, Region>();
  incidents: ModelIncident[] = [];
  window = { from: 0, to: 0 };
  /** What down means at the target. */
  down: "major" | "critical" = "major";

  get last(): ModelIncident | undefined {
    return this.incidents.at(-1);
  }

  run(region: string, grade: Grade, slot: number, now: number): void {
    const kind = grade === "passed" ? "passing" : "failing";
    const before = this.regions.get(region) ?? { vote: null, kind, streak: 0, major: false, degraded: 0, last: slot };
    const goesOn = before.kind === kind && before.streak > 0;
    const streak = goesOn ? before.streak + 1 : 1;
    const vote = streak >= this.confirmations ? kind : before.vote;
    const degraded = grade === "degraded" ? 1 + (goesOn ? before.degraded : 0) : 0;
    const over = (vote === "passing" && kind === "passing") || degraded >= this.confirmations;
    const major = grade === "failed" || (before.major && (goesOn || before.vote === "failing") && !over);
    this.regions.set(region, { vote, kind, streak, major, degraded, last: slot });
    this.decide(slot, now, kind === "failing");
  }

  edit(confirmations: number, policy: "any" | "all", now: number): void {
    Object.assign(this, { confirmations, policy });
    for (const region of this.regions.values()) if (region.streak >= confirmations) region.vote = region.kind;
    this.decide(now, now, true);
  }

  private decide(at: number, now: number, mayOpen: boolean): void {
    const isLive = (region: Region) => region.last > at - livenessMs;
    const all = [...this.regions.values()];
    const failing = all.filter(({ vote }) => vote === "failing");
    const failingLive = failing.filter(isLive);
    const passing = all.filter((region) => region.vote === "passing" && isLive(region));
    const live = all.filter(isLive).length;
    const needed = (voters: number) => (this.policy === "any" ? 1 : Math.max(1, voters));
    const incident = this.last;
    if (incident === undefined || !incident.open) {
      if (!mayOpen || failingLive.length === 0 || failingLive.length < needed(live)) return;
      const major = failingLive.some((region) => region.major);
      if (incident !== undefined && at - incident.closedAt < reopenMs) this.reopen(incident, major, now);
      else this.open(major, now);
    } else if (passing.length > 0 && failing.length < needed(live + failing.length - failingLive.length))
      this.close(incident, at, now, true);
    // Without a live vote nothing new is known: what was last known stays.
    else if (failing.length + passing.length > 0) {
      incident.severity = failing.some((region) => region.major) ? "major" : "minor";
      if (incident.severity === "minor" || incident.notified === "major") return;
      Object.assign(incident, { notified: "major", peak: "major" });
      if (incident.pinned === null) this.notify(incident, "escalated", now);
    }
  }

  private open(major: boolean, now: number): void {
    const incident: ModelIncident = {
      open: true,
      closedAt: 0,
      createdAt: now,
      severity: major ? "major" : "minor",
      notified: major ? "major" : "minor",
      peak: major ? "major" : "minor",
      pinned: null,
      down: this.down,
      reopened: 0,
      acknowledged: false,
      reminderDue: now + renotifyMs,
      held: null,
      notices: [],
    };
    this.incidents.push(incident);
    this.notify(incident, "opened", now);
  }

  private reopen(incident: ModelIncident, major: boolean, now: number): void {
    Object.assign(incident, { open: true, down: this.down, acknowledged: false, reminderDue: now + renotifyMs });
    incident.reopened++;
    incident.severity = incident.notified = major ? "major" : "minor";
    if (major) incident.peak = "major";
    this.notify(incident, "reopened", now);
  }

  private close(incident: ModelIncident, at: number, now: number, notify: boolean): void {
    Object.assign(incident, { open: false, closedAt: at, reminderDue: null });
    if (notify) this.notify(incident, "resolved", now);
  }

  /** By hand, or by a pause, which sends no notice: streaks start anew. */
  closeByHand(now: number, notify: boolean): void {
    for (const region of this.regions.values()) Object.assign(region, { vote: null, streak: 0 });
    if (this.last?.open === true) this.close(this.last, now, now, notify);
  }

  /** Severity as lists show it. */
  shown({ open, severity, peak, pinned, down }: ModelIncident): "minor" | "major" | "critical" {
    const engine = open ? severity : peak;
    return pinned ?? (engine === "minor" ? "minor" : down);
  }

  private raised(incident: ModelIncident, before: string, now: number): void {
    const order = ["minor", "major", "critical"];
    if (incident.open && order.indexOf(this.shown(incident)) > order.indexOf(before))
      this.notify(incident, "escalated", now);
  }

  /** A person states the severity, or withdraws it. */
  pin(severity: "critical" | null, now: number): void {
    const incident = this.last;
    if (incident === undefined) return;
    const before = this.shown(incident);
    incident.pinned = severity;
    if (severity === null) incident.down = this.down;
    this.raised(incident, before, now);
  }

  setDown(down: "major" | "critical", now: number): void {
    this.down = down;
    const incident = this.last;
    if (incident?.open !== true) return this.decide(now, now, true);
    const [before, notified] = [this.shown(incident), incident.notified];
    incident.down = down;
    this.decide(now, now, true);
    if (incident.notified === notified) this.raised(incident, before, now);
  }

  acknowledge(): void {
    if (this.last?.open === true && !this.last.acknowledged)
      Object.assign(this.last, { acknowledged: true, reminderDue: null });
  }

  unacknowledge(now: number): void {
    const incident = this.last;
    if (incident?.acknowledged !== true) return;
    incident.acknowledged = false;
    if (incident.open)
      incident.reminderDue = Math.max(now, renotifyMs + (incident.notices.at(-1)?.at ?? incident.createdAt));
  }

  inWindow(now: number): boolean {
    return this.window.from <= now && now < this.window.to;
  }

  private notify(incident: ModelIncident, reason: Exclude<Reason, "reminder">, now: number): void {
    const unheard = incident.held === "opened" || incident.held === "reopened";
    const one = reason === "escalated" && unheard ? incident.held! : reason;
    incident.held = this.inWindow(now) ? one : null;
    if (incident.held === null) this.send(incident, one, now);
  }

  private send(incident: ModelIncident, reason: Reason, now: number): void {
    const last = incident.notices.at(-1);
    const heard = incident.notices.some(({ reason: told }) => ["opened", "reopened", "escalated"].includes(told));
    if (reason === "resolved" && (!heard || last?.reason === "resolved")) return;
    incident.notices.push({ reason, at: Math.max(now, (last?.at ?? -1) + 1) });
  }

  remind(now: number): void {
    for (const incident of this.incidents) {
      const due = incident.reminderDue;
      if (due === null || due > now || !incident.open || incident.held !== null || this.inWindow(now)) continue;
      this.send(incident, "reminder", now);
      incident.reminderDue = due + renotifyMs > now ? due + renotifyMs : now + renotifyMs;
    }
  }

  /** The job that follows maintenance windows. */
  follow(now: number): void {
    if (this.inWindow(now)) return;
    for (const incident of this.incidents) {
      const { held } = incident;
      if (held === null) continue;
      incident.held = null;
      if (incident.reminderDue !== null) incident.reminderDue = Math.max(incident.reminderDue, now + renotifyMs);
      const first = held === "reopened" && incident.notices.length === 0;
      if ((held === "resolved") !== incident.open) this.send(incident, first ? "opened" : held, now);
    }
  }
}
