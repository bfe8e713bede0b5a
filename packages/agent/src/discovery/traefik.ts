/** The argument of the first call of a matcher in a rule of Traefik, as in Host(`example.org`); null without one. */
export function argumentOf(rule: string, ...matchers: readonly string[]): string | null {
  const starts = matchers.flatMap((name) => {
    const at = rule.indexOf(`${name}(\``);
    return at < 0 ? [] : [at];
  });
  if (starts.length === 0) return null;
  const from = rule.indexOf("`", Math.min(...starts)) + 1;
  const to = rule.indexOf("`", from);
  return to <= from || rule[to + 1] !== ")" ? null : rule.slice(from, to);
}
