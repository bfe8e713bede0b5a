/** The message of a caught value, which may be no Error. */
export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** The stack of a caught value, for logs. */
export const stackOf = (error: unknown): string =>
  error instanceof Error ? (error.stack ?? error.message) : String(error);

/** The code of a system error, such as `ENOENT`, or `UNKNOWN`. */
export function codeOf(error: unknown): string {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return typeof code === "string" ? code : "UNKNOWN";
}

/** The code of a system error, else the message: short and without the path, for people who know the file. */
export const codeOrMessage = (error: unknown): string => {
  const code = codeOf(error);
  return code === "UNKNOWN" ? messageOf(error) : code;
};
