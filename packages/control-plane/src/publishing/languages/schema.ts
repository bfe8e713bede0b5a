/** Languages of status pages, as BCP 47 tags. Each has a file of texts with its name here. */
export const languages = [
  "en",
  "de",
  "fr",
  "es",
  "it",
  "pt-BR",
  "nl",
  "pl",
  "cs",
  "sv",
  "uk",
  "ja",
  "zh-Hans",
  "ar",
] as const;
export type Language = (typeof languages)[number];
