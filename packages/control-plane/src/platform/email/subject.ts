/** A scheme, `www.`, or a host name: mail readers make links of them. */
const address = /:\/\/|\bwww\.|[\p{L}\p{N}-]\.\p{L}{2,}/iu;

/**
 * The name of an organisation or page for the subject of a mail, or `otherwise` where the name carries a URL: strangers
 * choose names, and the recipient may never have heard of them.
 */
export const nameInSubject = (name: string, otherwise: string): string => (address.test(name) ? otherwise : name);

/** Characters of a subject: mail readers cut longer ones, and RFC 5322 section 2.1.1 limits lines. */
const maxLength = 150;

/** A subject of one line: a line break would begin another header. */
export function subjectLine(title: string): string {
  const points = [...title.replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, " ").trim()];
  return points.length <= maxLength ? points.join("") : `${points.slice(0, maxLength - 1).join("")}…`;
}
