import { ops, readExpectation } from "./expectations.ts";
import { durationOption, ShellError, type ShellForm, type ShellOption } from "./shell.ts";

function statusFrom(text: string): unknown {
  if (/^\d{1,9}$/.test(text)) return { kind: "exact", value: Number(text) };
  const [, min, max] = /^(\d{1,9})-(\d{1,9})$/.exec(text) ?? [];
  if (min !== undefined) return { kind: "range", value: { min: Number(min), max: Number(max) } };
  if (/^\d{1,9}(,\d{1,9})+$/.test(text)) return { kind: "one_of", value: text.split(",").map(Number) };
  throw new ShellError(`must be a status code, a range or a list: 200, 200-299 or 200,204, and not "${text}"`);
}

/** Headers of the command line, one text each. Throws ShellError. */
function headersFrom(lines: readonly string[]): unknown {
  const headers = new Map<string, string>();
  for (const line of lines) {
    const at = line.indexOf(":");
    const name = line.slice(0, Math.max(0, at)).trim();
    // A line without a colon is not repeated in the error: it may be a secret.
    if (name === "")
      throw new ShellError("must have a name and a value with a colon between them, for example 'accept: text/html'");
    if (headers.has(name)) throw new ShellError(`has "${name}" twice`);
    headers.set(name, line.slice(at + 1).trim());
  }
  return Object.fromEntries(headers);
}

/** The option for headers, which may be secrets. */
export const headersOption = (words: string): ShellOption => ({
  name: "header",
  words,
  takes: "name: value",
  repeated: true,
  secret: "some",
  read: headersFrom,
});

/** Expectations of the command line; `subject` is the field of what is compared. */
const expectations = (subject: "path" | "name", example: string) => (lines: readonly string[]) =>
  lines.map((line) => {
    const read = readExpectation(line);
    if (read === null) throw new ShellError(`must be like '${example}', with one of ${ops.join(", ")}`);
    const { subject: what, ...rest } = read;
    return { [subject]: what, ...rest };
  });

function userAndPassword(text: string): unknown {
  const at = text.indexOf(":");
  if (at < 1) throw new ShellError("must have a user and a password with a colon between them");
  return [text.slice(0, at), text.slice(at + 1)];
}

/** Shell syntax of the HTTP check. */
export const httpShell: ShellForm = {
  subject: "<url>",
  read: (subject) => ({ url: subject }),
  options: {
    method: { read: ([text = ""]) => text.toUpperCase() },
    expected_status: {
      name: "expect-status",
      takes: "200 | 200-299 | 200,204",
      read: ([text = ""]) => statusFrom(text),
    },
    expected_body_contains: { name: "contains" },
    expected_body_absent: { name: "not-contains" },
    body_case_insensitive: { name: "ignore-case" },
    expected_body_matches: { name: "matches", takes: "pattern" },
    expected_body_not_matches: { name: "not-matches", takes: "pattern" },
    expected_json: {
      name: "expect-json",
      words: "value of the JSON body; may be repeated",
      takes: "path op value",
      repeated: true,
      read: expectations("path", '$.status eq "ok"'),
    },
    expected_headers: {
      name: "expect-header",
      words: "header of the response; may be repeated",
      takes: "name op value",
      repeated: true,
      read: expectations("name", 'content-type contains "json"'),
    },
    degraded_above_ms: durationOption("degraded-above"),
    down_above_ms: durationOption("down-above"),
    headers: headersOption("header of the request; may be repeated"),
    capture_failures: { words: "do not print the response of a failed check" },
    follow_redirects: { words: "judge the first answer, also where it redirects" },
    verify_tls: { words: "accept any certificate" },
    basic_auth: { words: "user:password", secret: "always", read: ([text = ""]) => userAndPassword(text) },
    auth_scheme: { words: "how basic_auth is used: basic or digest" },
    bearer_token: { words: "sent as Authorization: Bearer", secret: "always" },
  },
};
