const entities: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };

/** Text as HTML shows it, in elements and in quoted attributes. Null and undefined are nothing. */
export function escapeHtml(value: unknown): string {
  if (value instanceof Markup) return value.html;
  if (value === null || value === undefined) return "";
  return String(value).replace(/[&<>"']/g, (char) => entities[char]!);
}

/**
 * HTML that our own code made. Templates print it as it is; everything else is escaped, so no template needs a raw tag
 * for it.
 */
export class Markup {
  readonly html: string;
  constructor(html: string) {
    this.html = html;
  }
  toString(): string {
    return this.html;
  }
}

/** Tagged template that escapes every value that is not {@link Markup}; arrays are joined. */
export function html(parts: TemplateStringsArray, ...values: unknown[]): Markup {
  let out = parts[0]!;
  for (const [at, value] of values.entries()) {
    out += (Array.isArray(value) ? value.map(escapeHtml).join("") : escapeHtml(value)) + parts[at + 1]!;
  }
  return new Markup(out);
}
