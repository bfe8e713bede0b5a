/** What the form of a private page says of a refusal. */
export const accessProblems = ["wrong", "limit", "input", "denied", "provider", "expired"] as const;
export type AccessProblem = (typeof accessProblems)[number];

/** A path of the page at `base`, to go back to; `base` for any other text. */
export function pathWithin(base: string, next: string | null): string {
  const within = next !== null && /^[/?][\x21-\x7e]*$/.test(next.slice(base.length)) && next.startsWith(base);
  return within && next.length < 2000 ? next : base;
}

/** The path whose form says what was refused. */
export const withProblem = (path: string, problem: AccessProblem | "sent" | null): string =>
  problem === null
    ? path
    : `${path}${path.includes("?") ? "&" : "?"}${problem === "sent" ? "sent=1" : `problem=${problem}`}`;
