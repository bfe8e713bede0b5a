import { mailHtml, mailText, type MailTone } from "./layout.ts";

/** A notification in words. All texts are plain and of one line. */
export interface Alert {
  tone: MailTone;
  title: string;
  facts: readonly { label: string; value: string }[];
  url: string;
  linkLabel: string;
}

/** Characters of a subject: mail readers cut longer ones, and RFC 5322 section 2.1.1 limits lines. */
const maxSubjectLength = 150;

/** Subject, text and HTML of a notification. */
export function alertMail({ tone, title, facts, url, linkLabel }: Alert): {
  subject: string;
  text: string;
  html: string;
} {
  const words = {
    tone,
    title,
    facts,
    link: { label: linkLabel, url },
    footer: "StatusMesh sends this notification because this address is one of its notification channels.",
  };
  return { subject: subjectOf(title), text: mailText(words), html: mailHtml(words) };
}

/** One line: a line break in a subject would begin another header. */
function subjectOf(title: string): string {
  const points = [...title.replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, " ").trim()];
  return points.length <= maxSubjectLength ? points.join("") : `${points.slice(0, maxSubjectLength - 1).join("")}…`;
}
