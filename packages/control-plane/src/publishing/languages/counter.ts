/**
 * Writes a count in the plural forms of a language (CLDR), which `Form` names: `#` stands for the number. A count whose
 * form is not among them, like a million in French, takes the last one.
 */
export function counter<Form extends Intl.LDMLPluralRule>(locale: string) {
  let rules: Intl.PluralRules | undefined;
  return (count: number, forms: Readonly<Record<Form, string>>): string => {
    rules ??= new Intl.PluralRules(locale);
    const form =
      (forms as Partial<Record<string, string>>)[rules.select(count)] ?? Object.values<string>(forms).at(-1)!;
    return form.replace("#", String(count));
  };
}
