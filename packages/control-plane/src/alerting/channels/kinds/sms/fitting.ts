import type { MessageText } from "../../message.ts";

/**
 * The longest text that fits: title, facts, link. Other kinds shorten in steps (`fitted`); a text message
 * is charged by segment, so this uses every character. The longest lines are cut first, then the last facts are left
 * out; the link stays whole.
 */
export function fittingLines(
  { title, facts, url }: Pick<MessageText, "title" | "facts" | "url">,
  fits: (text: string) => boolean,
): string {
  const lines = [title, ...facts.map(({ label, value }) => `${label}: ${value}`)];
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
