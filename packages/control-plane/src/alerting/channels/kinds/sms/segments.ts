import { factLine, type MessageText } from "../../sending/message-text.ts";
/**
 * Characters of the GSM 7-bit default alphabet, one septet each, and of its extension table, two septets each (3GPP TS
 * 23.038, sections 6.2.1 and 6.2.1.1).
 */
const basicAlphabet = new Set(
  "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?" +
    "¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà",
);
const extension = new Set("^{}\\[~]|€");

/**
 * Septets of one message, and of each segment of a longer one: its header takes seven (3GPP TS 23.040 section
 * 9.2.3.24.1).
 */
const gsm = { single: 160, segment: 153 };
/** UTF-16 units likewise. */
const ucs2 = { single: 70, segment: 67 };

/** True when the text needs UCS-2. */
export const needsUnicode = (text: string): boolean =>
  [...text].some((character) => !basicAlphabet.has(character) && !extension.has(character));

/** Number of segments that the text is sent in. A pair of septets or of UTF-16 units is never split. */
export function segmentsOf(text: string): number {
  const unicode = needsUnicode(text);
  const widths = [...text].map((character) => (unicode ? character.length : extension.has(character) ? 2 : 1));
  const total = widths.reduce((sum, width) => sum + width, 0);
  const { single, segment } = unicode ? ucs2 : gsm;
  if (total <= single) return 1;
  let [segments, used] = [1, 0];
  for (const width of widths) {
    if (used + width > segment) [segments, used] = [segments + 1, 0];
    used += width;
  }
  return segments;
}

const replacements: Readonly<Record<string, string>> = {
  "…": "...",
  "‘": "'",
  "’": "'",
  "“": '"',
  "”": '"',
  "–": "-",
  "—": "-",
  "·": "-",
  "`": "'",
  "\u00a0": " ",
  "\u200d": "",
};

/** Replaces typographic characters: one of them would halve the room of the whole message. */
export const simplified = (text: string): string =>
  [...text].map((character) => replacements[character] ?? character).join("");

/**
 * The longest text that fits: title, facts, link. Other kinds shorten in steps (`fitted`); a text message
 * is charged by segment, so this uses every character. The longest lines are cut first, then the last facts are left
 * out; the link stays whole.
 */
export function fittingLines(
  { title, facts, url }: Pick<MessageText, "title" | "facts" | "url">,
  fits: (text: string) => boolean,
): string {
  const lines = [title, ...facts.map(factLine)];
  const longest = Math.max(...lines.map((line) => [...line].length));
  for (let count = lines.length; count >= 1; count--) {
    const least = count === 1 ? 1 : Math.min(leastLine, longest);
    const at = (length: number): string => [...lines.slice(0, count).map((line) => cut(line, length)), url].join("\n");
    if (!fits(at(least))) continue;
    let [low, high] = [least, longest];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (fits(at(middle))) low = middle;
      else high = middle - 1;
    }
    return at(low);
  }
  // The link alone exceeds the limit: leave it out, because a part of a link is useless.
  let length = longest;
  while (length > 1 && !fits(cut(title, length))) length--;
  return cut(title, length);
}

/** Code points of a line below which the last fact is left out instead. */
const leastLine = 60;

/** At most `length` code points, with `...` at the end where something is missing. */
function cut(line: string, length: number): string {
  const points = [...line];
  if (points.length <= length) return line;
  return length <= 3 ? points.slice(0, length).join("") : `${points.slice(0, length - 3).join("")}...`;
}
