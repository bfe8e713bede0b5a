/** Switches that accept a boolean value and mean true without one. Their environment variables always have a value. */
const switches = new Set(["--allow-private-targets", "--insecure-http"]);
/** Texts for true and false. */
export const yesAndNo: ReadonlyMap<string, boolean> = new Map([
  ["true", true],
  ["1", true],
  ["yes", true],
  ["false", false],
  ["0", false],
  ["no", false],
]);

/** Adds `=true` to each switch without a boolean: commander would take the next argument as its value. */
export function completeSwitches(args: readonly string[]): string[] {
  const end = args.indexOf("--");
  return args.map((arg, at) => {
    const bare = switches.has(arg) && (end < 0 || at < end) && !yesAndNo.has(args[at + 1] ?? "");
    return bare ? `${arg}=true` : arg;
  });
}
