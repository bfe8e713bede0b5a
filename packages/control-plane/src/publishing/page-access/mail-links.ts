import { AppError } from "@statusmesh/shared/errors";
import { dayMs, hourMs, minuteMs } from "@statusmesh/shared/time";
import type { Visit } from "../../platform/context.ts";
import { hashToken, newToken } from "../../platform/crypto/token.ts";
import { countEvent } from "../../platform/db/counters.ts";
import { mailOf } from "../../platform/email/layout.ts";
import { sendMail } from "../../platform/email/mail.ts";
import { addressKey } from "../../platform/http/limits/per-ip.ts";
import { hostUrl, pageUrl } from "../../platform/http/page-host.ts";
import { rateLimited } from "../../platform/http/limits/throttle.ts";
import type { Language } from "../languages/schema.ts";
import { textsOf } from "../languages/service.ts";
import { domainOfAddress, mailboxKey } from "../status-pages/access/service.ts";
import type { PageRow } from "../status-pages/visits/service.ts";
import { isEmail } from "../subscribers/schema.ts";
import { readerCookie } from "./cookie.ts";
import * as queries from "./queries.ts";

const linkMs = 15 * minuteMs;
/** Requests of a visitor within an hour, mails to a mailbox within a day, and mails of a page within an hour. */
const [maxRequests, maxMails, maxOfPage] = [10, 5, 1000];

/**
 * Mails a link that opens the page to an address of its domains. The reply does not say whether the address is of one,
 * neither by content nor by time: what differs runs after it. Throws INVALID_BODY, and RATE_LIMITED after 10 requests
 * of a visitor within an hour.
 */
export async function requestLink(
  visit: Visit,
  page: PageRow,
  { email, visitor, language }: { email: string; visitor: string; language: Language },
): Promise<void> {
  if (!isEmail(email))
    throw new AppError("INVALID_BODY", "Enter an email address, like name@example.org.", { field: "/email" });
  const cap = { scope: "page_links", key: addressKey(visitor), limit: maxRequests, windowMs: hourMs };
  const exceeded = await countEvent(visit.sql, [cap], visit.clock.now());
  if (exceeded !== null) throw rateLimited(cap.scope, exceeded.leftMs, { limit: maxRequests });
  sendLink(visit, page, email, language).catch((error: unknown) =>
    visit.log.error({ err: String(error) }, "a link to a private page could not be sent"),
  );
}

async function sendLink(visit: Visit, page: PageRow, email: string, language: Language): Promise<void> {
  const { sql, clock } = visit;
  const domain = domainOfAddress(email);
  if (domain === null || !page.access.email_domains.includes(domain)) return;
  const now = clock.now();
  const mailbox = { scope: "page_mailbox", key: mailboxKey(email), limit: maxMails, windowMs: dayMs };
  if ((await countEvent(sql, [mailbox], now)) !== null) return;
  const ofPage = { scope: "page_mails", key: page.id, limit: maxOfPage, windowMs: hourMs };
  if ((await countEvent(sql, [ofPage], now)) !== null) {
    visit.log.warn({ page: page.id }, "a private page sends no more links within this hour");
    return;
  }
  const token = newToken("");
  const { id: page_id, org_id, access_revision } = page;
  const link = { token_hash: hashToken(token), page_id, org_id, access_revision, mail_domain: domain };
  await queries.insertLink(sql, { ...link, expires_at: new Date(now + linkMs) });
  const url = `${addressOf(visit, page)}/access/${token}`;
  const { access: texts, dir } = textsOf(language);
  const mail = mailOf({
    tone: "plain",
    lang: language,
    dir,
    title: texts.mailTitle(new URL(url).host),
    paragraphs: [texts.mailText],
    link: { label: texts.open, url },
    footer: texts.mailFooter,
  });
  await oneAfterAnother(async () => {
    // Behind a mail server that does not respond, a link may be over before its turn.
    if (clock.now() < now + linkMs) await sendMail(visit, { to: email, ...mail });
  });
}

/** Queues of a process, each of which sends one mail at a time: a flood opens no more connections. */
const queues = Array.from({ length: 4 }, async () => {});
let turn = 0;

async function oneAfterAnother(send: () => Promise<void>): Promise<void> {
  const at = turn++ % queues.length;
  await (queues[at] = queues[at]!.then(send, send));
}

/** Address of the page that was requested, never by the Host header as sent. */
function addressOf({ config, pageId, pagePath }: Visit, { slug, custom_domain: domain }: PageRow): string {
  if (pagePath !== undefined) return `${config.server.public_url}${pagePath}`;
  return `${pageId !== undefined && domain !== null ? hostUrl(domain, config) : pageUrl(slug, config)}/status`;
}

const linkOf = (page: PageRow): Pick<queries.ReadPage, "page_id" | "access_revision"> => ({
  page_id: page.id,
  access_revision: page.access_revision,
});

/** True for a link that opens the page. It stays valid: scanners of mails open links. */
export async function isLink({ sql, clock }: Visit, page: PageRow, token: string): Promise<boolean> {
  if (page.access.mode !== "email_domains") return false;
  return await queries.hasLink(sql, linkOf(page), hashToken(token), new Date(clock.now()));
}

/** Consumes a link: the Set-Cookie header of its reader; null for a link that is not valid. */
export async function useLink(visit: Visit, page: PageRow, token: string): Promise<string | null> {
  if (page.access.mode !== "email_domains") return null;
  const mailDomain = await queries.takeLink(visit.sql, linkOf(page), hashToken(token), new Date(visit.clock.now()));
  if (mailDomain === null || !page.access.email_domains.includes(mailDomain)) return null;
  return await readerCookie(visit, page, { mailDomain });
}
