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
