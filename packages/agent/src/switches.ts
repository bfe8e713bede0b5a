/** Options that may be given a yes or no, and mean yes without. Their environment variables always have one. */
const switches = new Set(["--allow-private-targets", "--insecure-http"]);
/** The texts that mean yes or no. */
export const yesAndNo: ReadonlyMap<string, boolean> = new Map([
  ["true", true],
  ["1", true],
  ["yes", true],
  ["false", false],
  ["0", false],
  ["no", false],
]);

/** The arguments with `=true` at each switch that no yes or no follows: commander would take the next argument for one. */
export function completeSwitches(args: readonly string[]): string[] {
  const end = args.indexOf("--");
  return args.map((arg, at) => {
    const bare = switches.has(arg) && (end < 0 || at < end) && !yesAndNo.has(args[at + 1] ?? "");
    return bare ? `${arg}=true` : arg;
  });
}
