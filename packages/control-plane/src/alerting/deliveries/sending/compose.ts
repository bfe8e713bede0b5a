import { timezoneOf } from "../../../access/orgs/service.ts";
import type { System } from "../../../platform/context.ts";
import type { Content, MailThread, Notice, Round } from "../../channels/schema.ts";
import { isForPeople, isForPhones } from "../../channels/sending/service.ts";
import type { StoredChannel } from "../../channels/config/service.ts";
import { acknowledgeUrl, noticeToSend } from "../alerts/acknowledge-links.ts";
import type { ClaimedDelivery } from "./claim-queries.ts";
import { readRound } from "../rounds/round-queries.ts";
import { threadOf } from "../alerts/thread-queries.ts";

/** What one attempt sends. */
export interface Composed {
  content: Content;
  /** Notices in the message. */
  notices: number;
  /** Messages that a mail belongs to; null for other kinds. */
  mail: MailThread | null;
}

type Delivery = Omit<ClaimedDelivery, "channel"> & { channel: Pick<StoredChannel, "id" | "kind" | "org_id"> };

/** The message of a leased delivery, from what is true now; `over` where nothing is left to say to its channel. */
export async function compose(system: System, delivery: Delivery): Promise<Composed | "over"> {
  const { sql, config } = system;
  const { channel, notice, message_id: messageId } = delivery;
  const zone = await timezoneOf(system, channel.org_id);
  const mail = channel.kind === "email" ? await threadOf(sql, delivery, system.config.server.public_url) : null;
  if (messageId === null) {
    // A person reads one line of an incident that opened and ended before its notice could leave; nobody else does.
    if (isOver(notice)) {
      if (!isForPeople(channel.kind) || isForPhones(channel.kind)) return "over";
      return { content: { kind: "round", round: briefly(notice), zone }, notices: 1, mail };
    }
    return { content: { kind: "notice", notice: await noticeToSend(system, delivery, zone), zone }, notices: 1, mail };
  }
  const { round, single, notices } = await readRound(sql, delivery, `${config.server.public_url}/incidents`);
  if (round.fresh + round.recovered === 0 && (round.brief === 0 || isForPhones(channel.kind))) return "over";
  if (single !== null) {
    const now = { ...delivery, notice: newest(single, round) };
    return { content: { kind: "notice", notice: await noticeToSend(system, now, zone), zone }, notices, mail };
  }
  const url = round.fresh === 0 ? null : await acknowledgeUrl(system, delivery.id, "opened");
  return { content: { kind: "round", round: { ...round, acknowledge_url: url }, zone }, notices, mail };
}

/** True for an opening of an incident that is over. */
const isOver = ({ reason, ended_at }: Notice): boolean => reason !== "resolved" && ended_at !== null;

/** Notices of one incident as one: the newest, said as an opening where the channel knows of none. */
function newest(notices: readonly Notice[], { said, lines }: Round): Notice {
  const last = notices.at(-1)!;
  const opening = notices.find(({ reason }) => reason === "opened" || reason === "reopened");
  const level = lines[0]?.level ?? null;
  const reason = said === "opened" ? (opening ?? last).reason : said === "brief" ? last.reason : said;
  return { ...last, reason, ...(level === null || said !== "unacknowledged" ? {} : { level }) };
}

/** An incident that opened and ended, as a message. */
const briefly = (notice: Notice): Round => ({
  said: "brief",
  severity: notice.severity,
  fresh: 0,
  recovered: 0,
  brief: 1,
  causes: 1,
  lines: [
    {
      cause: null,
      severity: notice.severity,
      said: "brief",
      fresh: 0,
      open: 0,
      recovered: 0,
      brief: 1,
      level: null,
      since: null,
      began_at: notice.started_at,
      ended_at: notice.ended_at,
      error: notice.error_sample,
      same_error: true,
      names: [],
      brief_names: [notice.monitor_name],
    },
  ],
  url: notice.url,
});
