import t from "tap";
import { mask } from "@statusmesh/shared/secrets";
import { formats, harmless, secrets } from "./masking.cases.ts";
import { maskedHeader, maskerOf } from "./masking.ts";
import { isSecretName } from "./secret-names.ts";

const masked = maskerOf([]);

/** Any six characters in a row of the secret, in the text or in its decoded form, are a leak. */
function leaks(text: string, secret: string): boolean {
  const decoded = text.replaceAll(/%(?:25)*([\dA-F]{2})/gi, (_all, code: string) =>
    String.fromCharCode(Number.parseInt(code, 16)),
  );
  for (let at = 0; at + 6 <= secret.length; at++)
    if (text.includes(secret.slice(at, at + 6)) || decoded.includes(secret.slice(at, at + 6))) return true;
  return false;
}

/** Characters that were replaced. */
const lost = (before: string, after: string): number =>
  before.length - (after.length - mask.length * (after.split(mask).length - 1));

t.test("error pages and dumps: no secret stays, and the rest does", (t) => {
  let pages = 0;
  let other = 0;
  let tooMuch = 0;
  for (const [at, { from, names, page, keep }] of formats.entries())
    for (const [nth, name] of names.entries()) {
      const secret = secrets[(at + nth) % secrets.length]!;
      const text = page(name, secret);
      const after = masked(text);
      pages++;
      other += text.length - secret.length;
      tooMuch += Math.max(0, lost(text, after) - secret.length);
      if (leaks(after, secret)) t.fail(`${from}: ${name}`, { text, after });
      for (const word of keep)
        if (!after.includes(word)) t.fail(`${from}: ${name}: "${word}" is gone`, { text, after });
    }
  t.ok(pages >= 300, `${pages} pages`);
  t.ok(tooMuch < other * 0.02, `masked without need: ${((100 * tooMuch) / other).toFixed(2)} % of ${other} characters`);
  t.end();
});

t.test("pages without secrets stay as they are", (t) => {
  for (const text of harmless) t.equal(masked(text), text);
  t.end();
});

t.test("masking is idempotent", (t) => {
  for (const { from, names, page } of formats) {
    const once = masked(page(names[0]!, secrets[0]));
    t.equal(masked(once), once, from);
  }
  t.end();
});

t.test("names", (t) => {
  const secret =
    "DB_PASS dbPass db-pass API_KEY apiKey APIKey X-Api-Key apikey SMTP_AUTH GH_PAT _authToken sid connect.sid JWT " +
    "refresh bearer session sessionID PHPSESSID ASPSESSIONIDQWERTYUI .ASPXAUTH AWS_SECRET_ACCESS_KEY accessKeyId " +
    "csrfmiddlewaretoken XSRF-TOKEN laravel_session passwordHash tokenValue key STRIPE_KEY_LIVE KEY_2 Passwort";
  for (const name of secret.split(" ")) t.ok(isSecretName(name), name);
  const plain =
    "monkey keyboard keyword author authority passenger compass bypass sidebar patch pattern signal design tokenizer " +
    "session_driver auth_url token_type expires_in primary_key cacheKey Idempotency-Key max_tokens keyName " +
    "TokenMismatchException token.js secretName passed authenticated status X-Request-Id ETag Sec-WebSocket-Key";
  for (const name of plain.split(" ")) t.notOk(isSecretName(name), name);
  t.end();
});

t.test("headers: by name, and parameters of the addresses in them", (t) => {
  const header = (name: string, value: string): string => maskedHeader(name, value, masked);
  for (const name of ["X-Api-Key", "X_AUTH_TOKEN", "x-session-id", "Set-Cookie", "X-Goog-Signature", "X-Vault-Token"])
    t.equal(header(name, "abc"), mask, name);
  t.equal(
    header("Location", "/cb?page=2&refresh_token=abc&sid=def#access_token=ghi"),
    "/cb?page=2&refresh_token=***&sid=***#access_token=***",
  );
  t.equal(header("Refresh", "0; url=/in?session=abc"), "0; url=/in?session=***");
  t.equal(header("Access-Control-Allow-Credentials", "true"), "true");
  t.equal(header("Link", '</a?sig=abc>; rel="next"'), '</a?sig=***>; rel="next"');
  t.end();
});

t.test("the check's own secret in any case and encoding", (t) => {
  const secret = `Own"S3cret<&>'/é`;
  const own = maskerOf([secret]);
  const forms = [
    secret.toUpperCase(),
    secret.toLowerCase(),
    JSON.stringify(JSON.stringify(secret)),
    encodeURIComponent(encodeURIComponent(secret)),
    secret.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&#34;"),
    "Own\\u0022S3cret\\u003c\\u0026\\u003e\\u0027/é",
  ];
  for (const form of forms) t.notMatch(own(`echo ${form} end`), /s3cret/i, form);
  t.notMatch(own('echo OWN"S3CR', true), /S3CR/, "cut");
  t.end();
});

t.test("the time is linear in the length of hostile text", (t) => {
  const hostile = [
    "password=",
    'password="',
    "password='\\",
    "<token>",
    "<td>password</td>",
    "token ",
    "a-",
    "{[(",
    'password:{"a',
    "&lt;key&gt;",
    "?token=%26",
    "password:\n",
    "password:\n- ",
    "insert into x (password) values (",
    "connect('",
    '"password","',
    "<a b=",
    "%253F",
    "\\",
    "key=>",
    "A",
    'x=\\"',
    'name="password"\n',
    "://a:",
    "eyJ",
    "$2a$",
    "Aa0",
    "bearer ",
    '{"value":"',
    "://",
    " -u a:",
    "-----BEGIN PRIVATE KEY-----",
    "&",
    "key : ",
  ];
  for (const piece of hostile) {
    const cost = (length: number): number => {
      const text = piece.repeat(Math.ceil(length / piece.length)).slice(0, length);
      const samples = [1, 2, 3].map(() => {
        const { user } = process.cpuUsage();
        masked(text);
        return process.cpuUsage().user - user;
      });
      return Math.min(...samples);
    };
    const [short, long] = [cost(8_000), cost(64_000)];
    t.ok(long < 30 * short + 100_000, `${JSON.stringify(piece)}: ${short} and ${long} µs for eight times the text`);
  }
  t.end();
});
