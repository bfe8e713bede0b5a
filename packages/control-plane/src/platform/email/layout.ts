import { escapeHtml } from "../html/markup.ts";

/** Inline colours, because mail readers load no style sheets. The contrast on white is at least 4.5. */
const colours = { down: "#b42318", degraded: "#8f4a00", up: "#067647", test: "#344054", plain: "#175cd3" } as const;

export type MailTone = keyof typeof colours;

/** The texts of a mail. All are plain; {@link mailHtml} escapes them. */
export interface MailWords {
  tone: MailTone;
  /** BCP 47 tag and writing direction; English without them. */
  lang?: string;
  dir?: "ltr" | "rtl";
  title: string;
  /** Sentences below the title; one of formatted text has its safe HTML beside the text. */
  paragraphs?: readonly (string | { text: string; html: string })[];
  /** Shown as a table, in reading order. */
  facts?: readonly { label: string; value: string }[];
  /** Main link. */
  link: { label: string; url: string };
  /** A button before it. */
  action?: { label: string; url: string } | null;
  /** Reason for the mail. */
  footer: string;
}

/** A link as a button; `colour` fills it, null leaves it plain. */
function button({ label, url }: { label: string; url: string }, colour: string | null): string {
  const look =
    colour === null ? "text-decoration:underline" : `background:${colour};color:#ffffff;text-decoration:none`;
  return (
    `<a href="${escapeHtml(url)}"${colour === null ? ' class="text"' : ""} style="display:inline-block;` +
    `padding:12px 20px;${look};\nfont-size:16px;line-height:20px;border-radius:8px">${escapeHtml(label)}</a>`
  );
}

/** Invisible characters that fill the rest of the preview. */
const filler = "&#847;&zwnj;&nbsp;".repeat(60);

const font = "font-family:-apple-system,BlinkMacSystemFont,'Segoe UI',Roboto,Helvetica,Arial,sans-serif";

const textOf = (paragraph: string | { text: string }): string =>
  typeof paragraph === "string" ? paragraph : paragraph.text;

/**
 * The mail as HTML for mail readers: tables and inline styles, nothing loaded from anywhere, readable from 320 px and
 * in dark mode. Phones show the hidden first line as the preview.
 */
export function mailHtml(words: MailWords): string {
  const { tone, lang = "en", dir = "ltr", title, paragraphs = [], facts = [], link, action = null, footer } = words;
  const [start, labelPadding] = dir === "rtl" ? ["right", "4px 0 4px 16px"] : ["left", "4px 16px 4px 0"];
  const colour = colours[tone];
  const preview = [...facts.map(({ label, value }) => `${label}: ${value}`), ...paragraphs.map(textOf)].join(" · ");
  const rows = facts
    .map(
      ({ label, value }) =>
        `<tr><td class="label" style="padding:${labelPadding};color:#475467;font-size:14px;line-height:20px;` +
        `vertical-align:top;white-space:nowrap">${escapeHtml(label)}</td><td class="text" style="padding:4px 0;` +
        `color:#101828;font-size:14px;line-height:20px;word-break:break-word">${escapeHtml(value)}</td></tr>`,
    )
    .join("\n");
  const sentences = paragraphs
    .map(
      (one) =>
        `<div class="text" style="margin:0 0 12px;color:#101828;font-size:16px;line-height:24px">` +
        `${typeof one === "string" ? escapeHtml(one) : one.html}</div>`,
    )
    .join("\n");
  return `<!doctype html>
<html lang="${lang}"${dir === "rtl" ? ' dir="rtl"' : ""}>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="supported-color-schemes" content="light dark">
<title>${escapeHtml(title)}</title>
<style>
@media (prefers-color-scheme: dark) {
  .page { background: #0c111d !important }
  .card { background: #161b26 !important; border-left-color: #333741 !important; border-right-color: #333741 !important;
    border-bottom-color: #333741 !important }
  .text { color: #f5f5f6 !important }
  .label { color: #b0b5c0 !important }
}
</style>
</head>
<body class="page" style="margin:0;padding:0;background:#f2f4f7">
<div style="display:none;max-height:0;overflow:hidden;mso-hide:all">${escapeHtml(preview)}${filler}</div>
<table role="presentation" class="page" width="100%" cellpadding="0" cellspacing="0" style="background:#f2f4f7">
<tr><td align="center" style="padding:16px">
<table role="presentation" class="card" width="100%" cellpadding="0" cellspacing="0"
 style="max-width:560px;background:#ffffff;border:1px solid #d0d5dd;border-top:4px solid ${colour};
border-radius:8px;${font}">
<tr><td style="padding:20px;text-align:${start}">
<h1 class="text" style="margin:0 0 12px;color:#101828;font-size:20px;line-height:28px;word-break:break-word">
${escapeHtml(title)}</h1>
${sentences}
${rows === "" ? "" : `<table cellpadding="0" cellspacing="0" style="margin:0 0 16px">\n${rows}\n</table>`}
${action === null ? "" : `${button(action, colour)}\n`}${button(link, action === null ? colour : null)}
</td></tr>
</table>
<p class="label" style="max-width:560px;margin:12px 0 0;color:#475467;font-size:12px;line-height:18px;${font};
word-break:break-word">${escapeHtml(footer)}</p>
</td></tr>
</table>
</body>
</html>
`;
}

/** The same mail as plain text. */
export function mailText({ title, paragraphs = [], facts = [], link, action = null, footer }: MailWords): string {
  const rows = facts.map(({ label, value }) => `${label}: ${value}`);
  const blocks = [
    title,
    paragraphs.map(textOf).join("\n\n"),
    rows.join("\n"),
    action === null ? "" : `${action.label}:\n${action.url}`,
    `${link.label}:\n${link.url}`,
    `-- \n${footer}`,
  ];
  return `${blocks.filter((block) => block !== "").join("\n\n")}\n`;
}

/** Subject, text and HTML of a mail; the subject is its title unless it has its own. */
export const mailOf = ({ subject, ...words }: MailWords & { subject?: string }) => ({
  subject: subject ?? words.title,
  text: mailText(words),
  html: mailHtml(words),
});

/** A scheme, `www.`, or a host name: mail readers make links of them. */
const address = /:\/\/|\bwww\.|[\p{L}\p{N}-]\.\p{L}{2,}/iu;

/**
 * The name of an organisation or page for the subject of a mail, and for all of a mail that the recipient did not
 * request; `otherwise` where the name carries a URL: anyone can choose a name, and mail readers make it a link.
 */
export const nameWithoutUrl = (name: string, otherwise: string): string => (address.test(name) ? otherwise : name);

/** Characters of a subject: mail readers cut longer ones, and RFC 5322 section 2.1.1 limits lines. */
const maxLength = 150;

/**
 * A subject of one line: a line break would begin another header, and a direction would turn what is beside it. Readers
 * decode `=?utf-8?B?…?=` also where a customer wrote it (RFC 2047).
 */
export function subjectLine(title: string): string {
  const points = [
    ...title
      .replaceAll(/[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]+/gu, " ")
      .replaceAll("=?", "= ?")
      .trim(),
  ];
  return points.length <= maxLength ? points.join("") : `${points.slice(0, maxLength - 1).join("")}…`;
}

/** A body without control characters but line breaks and tabs, and without controls of direction (UAX #9). */
export const bodyText = (text: string): string =>
  text.replaceAll(/\r\n?/g, "\n").replaceAll(/[^\P{Cc}\n\t]|[\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/gu, " ");

/** The texts of a notification. All are plain and of one line. */
export interface Alert {
  tone: MailTone;
  /** BCP 47 tag and writing direction; English without them. */
  lang?: string;
  dir?: "ltr" | "rtl";
  title: string;
  facts: readonly { label: string; value: string }[];
  url: string;
  acknowledgeUrl: string | null;
  linkLabel: string;
}

/** Subject, text and HTML of a notification. */
export function alertMail({ tone, title, facts, url, acknowledgeUrl, linkLabel }: Alert): {
  subject: string;
  text: string;
  html: string;
} {
  const words = {
    tone,
    title,
    facts,
    link: { label: linkLabel, url },
    action: acknowledgeUrl === null ? null : { label: "Acknowledge", url: acknowledgeUrl },
    footer: "StatusMesh sends this notification because this address is one of its notification channels.",
  };
  return { subject: subjectLine(title), text: mailText(words), html: mailHtml(words) };
}
