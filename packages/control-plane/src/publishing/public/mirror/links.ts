import { posix } from "node:path";

/** What the views take for the path of a page while a copy of it is rendered; no text of a page begins like it. */
export const mark = "/.copy-of-page";

/** Attributes of views that begin with {@link mark}, and links to the page itself in another language. */
const marked = /(\s(?:href|src|srcset|data-[a-z]+)=")(?:\/\.copy-of-page([^"]*)|\?lang=([A-Za-z-]+))"/g;

/** The address of a file from another one; paths of a copy have no characters that a URL escapes. */
const between = (from: string, to: string): string => posix.relative(posix.dirname(from), to);

/**
 * The HTML of a file of a copy with relative links. `fileOf` names the file behind a path of the page, or null where
 * the copy has none: the link then leads to `live`, the address of the page itself.
 */
export function withRelativeLinks(
  html: string,
  file: string,
  { live, fileOf, inLanguage }: { live: string; fileOf(path: string): string | null; inLanguage(tag: string): string },
): string {
  return html.replaceAll(marked, (_whole, before: string, path: string | undefined, tag: string) => {
    if (path === undefined) return `${before}${between(file, inLanguage(tag))}"`;
    const to = fileOf(path.replaceAll("&amp;", "&"));
    return `${before}${to === null ? live + path : between(file, to)}"`;
  });
}
