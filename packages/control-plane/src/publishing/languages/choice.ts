import type { Context } from "koa";
import { LRUCache } from "lru-cache";
import { getOrMake } from "../../platform/caches.ts";
import type { Language } from "./schema.ts";

/** What the branding of a page says about its language: `languages` where it is `auto`. */
interface LanguageChoice {
  language: Language | "auto";
  /** Absent in a stored branding that is older than the field. */
  languages?: readonly Language[] | null;
}

/** The language of a page's data and of visitors without a preference among its languages. */
export const languageOf = ({ language, languages }: LanguageChoice): Language =>
  language === "auto" ? (languages?.[0] ?? "en") : language;

/** The language that `?lang=` asks for; null where the page does not have it. */
export const askedLanguage = ({ language, languages }: LanguageChoice, asked: string | undefined): Language | null =>
  language === "auto" && asked !== undefined
    ? (languages?.find((one) => one.toLowerCase() === asked.toLowerCase()) ?? null)
    : null;

/** Longest header that is read, and entries of it: browsers send fewer than ten. */
const [maxHeader, maxRanges] = [500, 20];

const looked = new LRUCache<string, Language>({ max: 500 });

/**
 * The first language of an `auto` page that the request prefers: RFC 4647 lookup by language and script, so that
 * `zh-CN` finds `zh-Hans` and `pt` finds `pt-BR`.
 */
export function preferredLanguage(choice: LanguageChoice, http: Context): Language {
  const languages = choice.language === "auto" ? (choice.languages ?? null) : null;
  const header = http.get("accept-language");
  if (languages === null || header === "" || header.length > maxHeader) return languageOf(choice);
  return getOrMake<string, Language>(looked, `${languages.join()} ${header}`, () => {
    for (const range of http.acceptsLanguages().slice(0, maxRanges)) {
      const found = languages.find((one) => one === range) ?? languages.find((one) => base(one) === base(range));
      if (found !== undefined) return found;
    }
    return languageOf(choice);
  });
}

/** Language and script of a tag: `zh-Hans` of `zh-CN`. The tag itself where it is none. */
function base(tag: string): string {
  try {
    const { language, script } = new Intl.Locale(tag).maximize();
    return `${language}-${script}`;
  } catch {
    return tag;
  }
}
