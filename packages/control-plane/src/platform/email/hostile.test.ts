import t, { type Test } from "tap";
import { createInvitation } from "../../access/orgs/members/invitations.ts";
import { createChannel } from "../../alerting/channels/service.ts";
import { mailChannelFailures } from "../../alerting/deliveries/channel-failures.ts";
import { postUpdate } from "../../alerting/incidents/timeline/service.ts";
import { reportIncident, resolveIncident } from "../../alerting/incidents/lifecycle/service.ts";
import { createWindow } from "../../alerting/maintenance/service.ts";
import { createTarget } from "../../monitoring/targets/write/service.ts";
import { addRecipient } from "../../publishing/reports/recipients.ts";
import { sendMonthlyReports } from "../../publishing/reports/monthly.ts";
import { addComponent } from "../../publishing/status-pages/components/service.ts";
import { createPage, updatePage } from "../../publishing/status-pages/service.ts";
import { pageToPreview } from "../../publishing/status-pages/visits/service.ts";
import { announce, sendMails } from "../../publishing/subscribers/engine.ts";
import { importSubscribers, subscribe } from "../../publishing/subscribers/service.ts";
import { hour, minute } from "../../testing/clock.ts";
import { type ReceivedMail, startMailbox } from "../../testing/mailbox.ts";
import { newOrg, openWorld } from "../../testing/world.ts";

/**
 * Texts of customers, as if nothing had refused them before. PostgreSQL stores no NUL. `links`: what an update,
 * which is Markdown, may link to.
 */
const texts: Record<string, { text: string; links?: readonly string[] }> = {
  "line breaks and SMTP": {
    text: "A\r\nBcc: evil@example.org\r\n.\r\nMAIL FROM:<evil@example.org>\r\n\r\n--b\nX-Evil: 1\rX-Evil: 2",
  },
  "encoded words": { text: "=?utf-8?Q?A=0D=0ABcc:_evil?= =?utf-8?B?aHR0cHM6Ly9ldmlsLmV4YW1wbGUvCg==?=" },
  "control characters and directions": {
    text: "a\u202egnp.exe\u202c \u2066b\u2069 c\u2028X-Evil: 1\u2029\u0085d\u000b\u0001\u001b[31m\u007f",
  },
  HTML: {
    text:
      `</title></h1><img src=x onerror=alert(1)><script>alert(1)</script>"'><a href="https://evil.example">` +
      "<!-- --><![CDATA[x]]>&lt;b&gt;&#60;script&#62;&quot;&amp;amp;</style><style>*{}",
  },
  "links that are none": {
    text:
      "[a](javascript:alert(1)) [b](data:text/html,x) [c](JaVaScRiPt:x) [d](//evil.example) " +
      `[e](https://evil.example/"onclick=alert(1)) [f](https://evil.example/'><b>)`,
  },
  "Markdown and addresses": {
    text:
      "*a **b* c** `**d` e** [*f](https://evil.example/a?b=1&c=2)* ![g](https://evil.example/h.png) " +
      "[i](mailto:evil@example.org) https://evil.example/win www.evil.example",
    links: ["https://evil.example/a?b=1&c=2", "https://evil.example/h.png", "mailto:evil@example.org"],
  },
  "a long word": { text: "Ä".repeat(1200) },
};

const mailbox = await startMailbox(t);
const world = await openWorld(t, { env: { SM_EMAIL__SMTP_URL: mailbox.url } });
const { sql, clock, system } = world;
const origin = system.config.server.public_url;

/** Headers that mails have, each at most once. */
const headerNames = new Set([
  "from",
  "to",
  "subject",
  "message-id",
  "date",
  "mime-version",
  "content-type",
  "content-transfer-encoding",
  "auto-submitted",
  "list-unsubscribe",
  "list-unsubscribe-post",
]);
const elements = new Set("html head meta title style body div table tr td h1 p a ul li br strong em code".split(" "));
const attributes = new Set(
  "lang charset name content class style role width cellpadding cellspacing align href rel".split(" "),
);
const empty = new Set(["meta", "br"]);

/** Headers and body of a message or of a part of it. */
function parse(raw: string): { headers: Map<string, string>; names: string[]; body: string } {
  const end = raw.indexOf("\r\n\r\n");
  const lines = raw
    .slice(0, end)
    .replaceAll(/\r\n(?=[ \t])/g, "")
    .split("\r\n");
  const pairs = lines.map(
    (line) => [line.slice(0, line.indexOf(":")).toLowerCase(), line.slice(line.indexOf(":") + 1).trim()] as const,
  );
  return { headers: new Map(pairs), names: pairs.map(([name]) => name), body: raw.slice(end + 4) };
}

const quotedPrintable = (text: string, { lines }: { lines: boolean }): Buffer =>
  Buffer.from(
    (lines ? text.replaceAll("=\r\n", "") : text.replaceAll("_", " ")).replaceAll(
      /=([0-9A-F]{2})/gi,
      (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)),
    ),
    "latin1",
  );

/** A part with its transfer encoding taken off. */
function decoded({ headers, body }: ReturnType<typeof parse>): string {
  const encoding = headers.get("content-transfer-encoding")?.toLowerCase();
  if (encoding === "base64") return Buffer.from(body, "base64").toString();
  return encoding === "quoted-printable" ? quotedPrintable(body, { lines: true }).toString() : body;
}

/** RFC 2047: encoded words of a header; blanks between two of them are not shown. */
function unfolded(value: string): string {
  const bytes: Buffer[] = [];
  const words = /=\?utf-8\?([QB])\?([^?]*)\?=(?:\s+(?==\?utf-8))?/gi;
  let from = 0;
  for (const found of value.matchAll(words)) {
    bytes.push(Buffer.from(value.slice(from, found.index)));
    bytes.push(
      found[1]!.toUpperCase() === "B" ? Buffer.from(found[2]!, "base64") : quotedPrintable(found[2]!, { lines: false }),
    );
    from = found.index + found[0].length;
  }
  return Buffer.concat([...bytes, Buffer.from(value.slice(from))]).toString();
}

const unescaped = (text: string): string =>
  text
    .replaceAll(/&#(\d+);/g, (_, code: string) => String.fromCodePoint(Number(code)))
    .replaceAll("&zwnj;", "\u200c")
    .replaceAll("&nbsp;", " ")
    .replaceAll("&lt;", "<")
    .replaceAll("&gt;", ">")
    .replaceAll("&quot;", '"')
    .replaceAll("&amp;", "&");

/** Letters and digits: what both versions of a mail say, without markup. */
const letters = (text: string): string => text.replaceAll(/[^\p{L}\p{N}]/gu, "");

/** Reads HTML strictly: every `<` is a known tag with quoted attributes, and tags are nested. */
function readHtml(t: Test, html: string): { hrefs: string[]; text: string } {
  const hrefs: string[] = [];
  const open: string[] = [];
  const unknown: string[] = [];
  let link = "";
  const shown = html
    .replace(/^<!doctype html>/, "")
    .replace(
      /<head>.*?<\/head>/s,
      (head) => (t.match(head, /^[^<]*(?:<(?:meta|\/?title|\/?style|\/?head)\b[^<]*)+$/), ""),
    )
    .replace(/<div style="display:none.*?<\/div>/s, (preview) => (t.notMatch(preview.slice(1, -6), "<"), ""))
    .replaceAll(/<(\/?)(\w+)((?:\s+[\w-]+="[^"<>]*")*)\s*>/g, (_, end: string, name: string, more: string) => {
      if (!elements.has(name)) unknown.push(name);
      for (const [, attribute, value] of more.matchAll(/([\w-]+)="([^"]*)"/g)) {
        if (!attributes.has(attribute!)) unknown.push(attribute!);
        if (attribute === "href") hrefs.push((link = unescaped(value!)));
      }
      if (end !== "" && open.pop() !== name) unknown.push(`/${name}`);
      if (end === "" && !empty.has(name)) open.push(name);
      return end !== "" && name === "a" ? ` ${link} ` : " ";
    });
  t.strictSame([...unknown, ...open], [], "known elements and attributes, nested");
  t.notMatch(shown, /[<>]/, "no other tag");
  return { hrefs, text: unescaped(shown) };
}

/** Controls but line breaks, and those that turn the direction of text. */
const controls = /(?!\n)[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/u;

function check(t: Test, mail: ReceivedMail, { links, unasked }: { links: readonly string[]; unasked: boolean }): void {
  const raw = mail.raw.toString("latin1");
  t.notMatch(raw, /[^\r\n]{999}/, "lines of at most 998 characters (RFC 5322)");
  t.notMatch(raw, /[^\x20-\x7e\r\n\t]/, "ASCII only");
  const whole = parse(raw);
  t.strictSame(
    whole.names.filter((name) => !headerNames.has(name)),
    [],
    "no other header",
  );
  t.equal(new Set(whole.names).size, whole.names.length, "each header once");
  t.equal(mail.to.length, 1);
  t.equal(whole.headers.get("to"), mail.to[0]);
  const subject = unfolded(whole.headers.get("subject")!);
  t.notMatch(subject, controls);
  t.notMatch(subject, "\n");
  if (unasked) t.notMatch(subject, "evil.example/", "no URL in the subject");
  const boundary = /^multipart\/alternative; *boundary="([^"]+)"$/.exec(whole.headers.get("content-type")!)?.[1];
  const parts =
    boundary === undefined
      ? [whole]
      : whole.body
          .split(`--${boundary}`)
          .slice(1, -1)
          .map((part) => parse(part.slice(2)));
  t.strictSame(
    parts.map(({ headers }) => headers.get("content-type")),
    ["text/plain; charset=utf-8", "text/html; charset=utf-8"].slice(0, parts.length),
  );
  const [text, html] = parts.map((part) => decoded(part).replaceAll("\r\n", "\n"));
  t.notMatch(text!, controls);
  if (unasked) t.notMatch(text!, "evil.example", "who never heard of a customer gets no URL of it");
  if (html === undefined) return;
  t.notMatch(html, controls);
  const read = readHtml(t, html);
  const foreign = read.hrefs.filter((href) => !href.startsWith(`${origin}/`));
  t.strictSame(
    foreign.filter((href) => !links.includes(href)),
    [],
    "no other link",
  );
  t.equal(letters(read.text), letters(text!), "both versions say the same");
}

let count = 0;
/** Mails to an address are limited. */
const unique = (name: string) => `${name}${++count}@example.org`;

/** An organisation whose names are the text. */
async function scene(text: string) {
  clock.at = Date.parse("2026-10-20T12:00:00Z");
  await sql`update channel_health set failing_mailed_at = now()`;
  const owner = await newOrg(system);
  await sql`update orgs set name = ${text} where id = ${owner.orgId}`;
  const check = { type: "tcp", host: "db.example.org", port: 5432, timeout: 1000 } as const;
  const target = (await createTarget(owner, { name: text, check, tags: ["x"] })).id;
  await sql`update targets set tags = ${[text]} where id = ${target}`;
  const slug = `s${owner.orgId.slice(-12)}`;
  const page = await createPage(owner, { slug, name: text });
  await addComponent(owner, page.id, { target_id: target });
  const channel = async () => {
    const { id } = await createChannel(owner, {
      name: `${text} ${++count}`,
      config: { type: "email", to: unique("ops") },
    });
    return id;
  };
  return { owner, target, page, slug, channel };
}
type Scene = Awaited<ReturnType<typeof scene>>;

const kinds: Record<string, { unasked?: true; mails: number; send: (scene: Scene, text: string) => Promise<unknown> }> =
  {
    invitation: {
      unasked: true,
      mails: 1,
      send: async ({ owner }) => await createInvitation(owner, owner.orgId, { email: unique("nina") }),
    },
    "confirmation of a channel": { unasked: true, mails: 1, send: async ({ channel }) => await channel() },
    "confirmation of a subscription": {
      unasked: true,
      mails: 1,
      async send({ owner, page }) {
        const visit = { ...system, page: await pageToPreview(owner, page.id) };
        await subscribe(visit, { email: unique("sub") }, `192.0.2.${count}`);
        await sendMails(system);
        await sql`delete from subscribers where page_id = ${page.id}`;
      },
    },
    "incident, update, end and maintenance": {
      mails: 4,
      async send({ owner, page, target }, text) {
        await updatePage(owner, page.id, { branding: { display_name: text } });
        await importSubscribers(owner, page.id, {
          items: [{ email: unique("sub") }],
          source: text,
          confirmed: true,
        });
        clock.advance(minute);
        const run = async () => {
          await announce(system);
          await sendMails(system);
          clock.advance(minute);
        };
        const { id } = await reportIncident(owner, {
          target_id: target,
          severity: "major",
          public_title: text,
          message: text,
        });
        await run();
        await postUpdate(owner, id, { phase: "identified", message: text });
        await run();
        await resolveIncident(owner, id);
        await run();
        const at = (ms: number) => new Date(clock.at + ms).toISOString();
        await createWindow(owner, {
          title: text,
          description: text,
          starts_at: at(hour),
          ends_at: at(2 * hour),
          component_ids: [target],
        });
        await run();
        await sql`delete from subscribers where page_id = ${page.id}`;
      },
    },
    "monthly reports of an organisation, a page and a tag": {
      mails: 3,
      async send({ owner, page, channel }, text) {
        const channel_id = await channel();
        await sql`update channels set verified_at = now() where id = ${channel_id}`;
        await sql`update channel_verifications set confirmed_at = now() where channel_id = ${channel_id}`;
        mailbox.mails.length = 0;
        for (const of of [{}, { page_id: page.id }, { tag: text }]) await addRecipient(owner, { channel_id, ...of });
        clock.at = Date.parse("2026-11-01T12:00:00Z");
        await sendMonthlyReports(system);
        await sql`delete from report_recipients`;
      },
    },
    "failing channel": {
      mails: 1,
      async send({ channel }, text) {
        const id = await channel();
        mailbox.mails.length = 0;
        await sql`
        insert into channel_health (channel_id, failing_since, last_error)
        values (${id}, ${new Date(clock.at - hour)}, ${text})
        on conflict (channel_id) do update
        set failing_since = excluded.failing_since, last_error = excluded.last_error`;
        await mailChannelFailures(system);
      },
    },
  };

for (const [name, { text, links = [] }] of Object.entries(texts))
  void t.test(`${name}: no header, element or link is added, and both versions say the same`, async (t) => {
    const made = await scene(text);
    for (const [kind, { unasked = false, mails, send }] of Object.entries(kinds)) {
      mailbox.mails.length = 0;
      await send(made, text);
      t.equal(mailbox.mails.length, mails, kind);
      for (const mail of mailbox.mails) check(t, mail, { links, unasked });
    }
  });
