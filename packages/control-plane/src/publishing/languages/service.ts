import { ar } from "./ar.ts";
import { cs } from "./cs.ts";
import { de } from "./de.ts";
import { en, type Texts } from "./en.ts";
import { es } from "./es.ts";
import { fr } from "./fr.ts";
import { it } from "./it.ts";
import { ja } from "./ja.ts";
import { nl } from "./nl.ts";
import { pl } from "./pl.ts";
import { ptBR } from "./pt-BR.ts";
import type { Language } from "./schema.ts";
import { sv } from "./sv.ts";
import { uk } from "./uk.ts";
import { zhHans } from "./zh-Hans.ts";

export { askedLanguage, languageOf, preferredLanguage } from "./choice.ts";
export type { Texts };

const catalogue: Record<Language, Texts> = {
  en,
  de,
  fr,
  es,
  it,
  "pt-BR": ptBR,
  nl,
  pl,
  cs,
  sv,
  uk,
  ja,
  "zh-Hans": zhHans,
  ar,
};

/** The texts of a language. */
export const textsOf = (language: Language): Texts => catalogue[language];

/** A state in the middle of a sentence. */
export const stateInSentence = ({ page, locale, smallStates }: Texts, state: keyof Texts["page"]["state"]): string =>
  smallStates ? page.state[state].toLocaleLowerCase(locale) : page.state[state];
