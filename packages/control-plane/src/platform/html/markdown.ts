import { escapeHtml, Markup } from "./markup.ts";

/**
 * The Markdown subset of an "about" text (500 characters) and of updates (2,000): paragraphs, `-` lists, **strong**,
 * *emphasis*, `code` and [links](https://…) to http, https and mailto. The text is escaped first and only our
 * own tags are added, so no HTML of the author survives; unknown syntax stays as typed.
 */
export function markdownHtml(text: string): Markup {
  const blocks = text
    .replaceAll("\r\n", "\n")
    .split(/\n{2,}/)
    .map((block) => block.trim())
    .filter((block) => block !== "");
  return new Markup(blocks.map(blockHtml).join(""));
}

function blockHtml(block: string): string {
  const lines = block.split("\n");
  if (lines.every((line) => /^[-*] /.test(line)))
    return `<ul>${lines.map((line) => `<li>${inline(line.slice(2))}</li>`).join("")}</ul>`;
  return `<p>${lines.map(inline).join("<br>")}</p>`;
}

/** Code spans and links are extracted before emphasis, so that underscores and stars inside them stay. */
const atoms = /`([^`\n]+)`|\[([^\]\n]+)\]\(((?:https?:\/\/|mailto:)[^\s()<>]+)\)/g;

function inline(line: string): string {
  let html = "";
  let from = 0;
  for (const found of line.matchAll(atoms)) {
    html += emphasis(line.slice(from, found.index));
    const [whole, code, label, href] = found;
    html +=
      code !== undefined
        ? `<code>${escapeHtml(code)}</code>`
        : `<a href="${escapeHtml(href)}" rel="nofollow noopener">${emphasis(label ?? "")}</a>`;
    from = found.index + whole.length;
  }
  return html + emphasis(line.slice(from));
}

const emphasis = (text: string): string =>
  escapeHtml(text)
    .replace(/\*\*(\S(?:[^*]*\S)?)\*\*/g, "<strong>$1</strong>")
    .replace(/\*(\S(?:[^*]*\S)?)\*/g, "<em>$1</em>");
