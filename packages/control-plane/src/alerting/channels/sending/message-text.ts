/** State that decides colours, icons and priorities. */
export type Tone = "down" | "degraded" | "up" | "test";

const toneIcon: Readonly<Record<Tone, string>> = { down: "🔴", degraded: "🟠", up: "🟢", test: "🔵" };

/** A message in words that every kind formats in its vendor's way. All texts are plain: see {@link plain}. */
export interface MessageText {
  tone: Tone;
  /** True for an opened, reopened or escalated incident of high urgency. */
  urgent: boolean;
  /** One line: `Down: Checkout API`. */
  title: string;
  /** `Cause`, `Since` and the like, in reading order. */
  facts: { label: string; value: string }[];
  url: string;
  /** The page that acknowledges; null where there is nothing to acknowledge. */
  acknowledgeUrl: string | null;
  /** Text of the link: `View incident`. */
  linkLabel: string;
}

export const maxNameLength = 200;
export const maxCauseLength = 500;

/**
 * Text of customers on one line of at most `maxLength` characters: white space collapsed, without control, format and
 * bidirectional characters (Unicode category C). A kind then escapes the markup of its vendor.
 */
export function plain(text: string, maxLength: number): string {
  const line = text
    .toWellFormed()
    .replaceAll(/\s+/gu, " ")
    // U+200D joins emoji and is harmless between them.
    .replaceAll(/[^\P{C}\u200d]/gu, "")
    .trim();
  return shorten(line, maxLength);
}

/** The text, or its beginning with `…` at the end. Counts code points, and never splits one. */
function shorten(text: string, maxLength: number): string {
  const points = [...text];
  return points.length <= maxLength ? text : `${points.slice(0, maxLength - 1).join("")}…`;
}

/** Title and facts as lines, with a line break at the end: what a kind escapes before its {@link linkLines}. */
export const headLines = ({ title, facts }: MessageText): string => [title, ...facts.map(factLine), ""].join("\n");

/** The links as lines: the one that acknowledges, then the incident. `shown` writes a URL in the vendor's way. */
export function linkLines({ url, acknowledgeUrl }: MessageText, shown = (link: string): string => link): string {
  return [...(acknowledgeUrl === null ? [] : [`Acknowledge: ${shown(acknowledgeUrl)}`]), shown(url)].join("\n");
}

/** The message with the icon of its tone in front of the title. */
export const withIcon = (message: MessageText): MessageText => ({
  ...message,
  title: `${toneIcon[message.tone]} ${message.title}`,
});

/**
 * Renders title with icon, facts and links, for {@link fitted}. `escaped` escapes the markup of the vendor, `shown`
 * writes a URL in its way.
 */
export const chatText = (escaped: (text: string) => string, shown?: (link: string) => string) => (part: MessageText) =>
  `${toneIcon[part.tone]} ${escaped(headLines(part))}${linkLines(part, shown)}`;

/** The message as lines of text, for kinds without markup: title, facts, links. */
export const textLines = (message: MessageText): string => headLines(message) + linkLines(message);

/** The facts as lines of text, for kinds that show the title and the links apart. */
export const factLines = ({ facts }: MessageText): string => facts.map(factLine).join("\n");

export const factLine = ({ label, value }: MessageText["facts"][number]): string => `${label}: ${value}`;

/** The token of the link that acknowledges, for buttons; null without one. */
export const acknowledgeTokenIn = ({ acknowledgeUrl }: Pick<MessageText, "acknowledgeUrl">): string | null =>
  acknowledgeUrl?.split("/").at(-1) ?? null;

/** {@link factLines} and the link that acknowledges, for kinds that show the title and one link apart. */
export const factsAndAcknowledge = (message: MessageText): string =>
  message.acknowledgeUrl === null
    ? factLines(message)
    : `${factLines(message)}\nAcknowledge: ${message.acknowledgeUrl}`;

/** Lengths of fact values that {@link fitted} tries, in code points. */
const fittingLengths = [240, 120, 60, 30, 15];

/**
 * The rendered message, with values shortened until it is at most `most` long, in the last resort without facts.
 * Vendors count their limit after escaping, in the unit of `lengthOf`: UTF-16 units where it is left out.
 */
export function fitted(
  message: MessageText,
  render: (message: MessageText) => string,
  most: number,
  lengthOf: (rendered: string) => number = (rendered) => rendered.length,
): string {
  const whole = render(message);
  if (lengthOf(whole) <= most) return whole;
  for (const length of fittingLengths) {
    const facts = message.facts.map(({ label, value }) => ({
      label: shorten(label, 2 * length),
      value: shorten(value, length),
    }));
    const rendered = render({ ...message, title: shorten(message.title, Math.max(60, length)), facts });
    if (lengthOf(rendered) <= most) return rendered;
  }
  return render({ ...message, title: shorten(message.title, 60), facts: [] });
}
