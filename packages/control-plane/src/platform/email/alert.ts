import { mailHtml, mailText, type MailTone } from "./layout.ts";
import { subjectLine } from "./subject.ts";

/** A notification in words. All texts are plain and of one line. */
export interface Alert {
  tone: MailTone;
  title: string;
  facts: readonly { label: string; value: string }[];
  url: string;
  linkLabel: string;
}

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
  return { subject: subjectLine(title), text: mailText(words), html: mailHtml(words) };
}
