import { mask } from "@statusmesh/shared/secrets";

/** Parts of a secret shorter than this are masked only together with the rest of it. */
const leastPart = 6;
/** Secrets shorter than this are masked where they stand alone: inside words they would match by chance. */
const leastInside = 4;
/** A cut secret shorter than this at the end of a text is not recognised. */
const leastRest = 3;

/** Masks the secrets of a check, and texts that look like secrets, in what a server answers. */
export interface Masker {
  /** `isCut`: the text goes on, so that its end may be the beginning of a secret. */
  (text: string, isCut?: boolean): string;
}

/** A masker for the given secrets in every form in which servers commonly repeat them. */
export function maskerOf(secrets: readonly string[]): Masker {
  const forms = [...new Set(secrets.flatMap(partsOf).flatMap(formsOf))]
    .filter((form) => form !== "")
    .sort((one, other) => other.length - one.length);
  return (text, isCut = false) => {
    let masked = text;
    for (const form of forms) {
      if (form.length >= leastInside) masked = masked.replaceAll(form, mask);
      else masked = masked.replaceAll(aloneOf(form), mask);
    }
    if (isCut) masked = withoutRest(masked, forms);
    return withoutTokens(masked);
  };
}

/** The secret itself, and the parts of a header value: scheme and credentials, cookies, user and password. */
function partsOf(secret: string): string[] {
  const basic = /^basic\s+([\w+/=-]+)$/i.exec(secret)?.[1];
  const decoded = basic === undefined ? "" : Buffer.from(basic, "base64").toString();
  const parts = `${secret} ${decoded.replace(/^[^:]*:/, "")}`.split(/[\s;,=]+/);
  return [secret, ...parts.filter((part) => part.length >= leastPart)];
}

const html: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };

/** Plain, in JSON, in URLs, in HTML, in base64, and with the bytes of the header read in another character set. */
function formsOf(secret: string): string[] {
  const encoded = encodeURIComponent(Buffer.from(secret).toString());
  return [
    secret,
    JSON.stringify(secret).slice(1, -1),
    encoded,
    encoded.replaceAll(/%[\dA-F]{2}/g, (code) => code.toLowerCase()),
    encoded.replaceAll("%20", "+"),
    secret.replaceAll(/[&<>"']/g, (character) => html[character]!),
    ...(secret.length >= leastPart
      ? (["base64", "base64url"] as const).flatMap((encoding) => {
          const text = Buffer.from(secret).toString(encoding);
          return [text, text.replace(/=+$/, "")];
        })
      : []),
    Buffer.from(secret, "latin1").toString(),
    Buffer.from(secret).toString("latin1"),
  ];
}

const aloneOf = (word: string): RegExp =>
  new RegExp(`(?<![\\p{L}\\p{N}])${word.replaceAll(/[\\^$.*+?()[\]{}|/-]/g, "\\$&")}(?![\\p{L}\\p{N}])`, "gu");

/** The text without an end that is the beginning of a secret. */
function withoutRest(text: string, forms: readonly string[]): string {
  let longest = 0;
  for (const form of forms)
    for (let length = Math.min(form.length - 1, text.length); length > Math.max(longest, leastRest - 1); length--)
      if (text.endsWith(form.slice(0, length))) longest = length;
  return longest === 0 ? text : text.slice(0, -longest) + mask;
}

const secretWords =
  "passw(?:or)?d|passwd|pwd|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credential|" +
  "authorization|session[_-]?id|signature|cookie";
/** Names of headers and fields whose value is a secret. */
const secretName = new RegExp(`${secretWords}|session|csrf|xsrf|jwt`, "i");
/** `password=…`, `"apiToken": "…"`, `SECRET_KEY => …` */
const secretField = new RegExp(
  `([\\w.-]{0,40}(?:${secretWords})[\\w.-]{0,40}["']?\\s{0,5}(?:=>|[:=])\\s{0,5})("[^"]*"?|'[^']*'?|[^\\s&;,<>"']+)`,
  "gi",
);
const privateKey = /-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[^-]*(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?/g;
/** RFC 7519: both parts of a JSON Web Token that matter are base64url of a JSON object. */
const jsonWebToken = /\beyJ[\w-]{5,}\.[\w-]{5,}(?:\.[\w-]*)?/g;
/** Prefixes that vendors give their keys so that scanners find them. */
const vendorPrefixes =
  "gh[pousr]_|github_pat_|glpat-|xox[abeoprs]-|sk-|[spr]k_(?:live|test)_|AKIA|ASIA|AIza|ya29\\.|SG\\.|npm_|sm_[a-z]+_";
const vendorKey = new RegExp(`\\b(?:${vendorPrefixes})[\\w.-]{8,}`, "g");
const scheme = /\b(bearer|basic|digest|negotiate|apikey)(\s{1,5})(?=[^\s\d]{0,200}\d)[\w+/=.~-]{8,}/gi;
const userInfo = /\b([a-z][a-z\d+.-]{0,20}:\/\/)[^\s/@:]{0,200}:[^\s/@]{1,200}@/gi;
const queryField = /([?&](?:sig|key|code|auth|state)=)[^&\s"'<>#]+/gi;
const opaque = /[\w+-]{40,}={0,2}/g;

function withoutTokens(text: string): string {
  return text
    .replaceAll(privateKey, mask)
    .replaceAll(jsonWebToken, mask)
    .replaceAll(vendorKey, mask)
    .replaceAll(scheme, `$1$2${mask}`)
    .replaceAll(userInfo, `$1${mask}@`)
    .replaceAll(queryField, `$1${mask}`)
    .replaceAll(secretField, (_found, name: string, value: string) => {
      const quote = /^["']/.exec(value)?.[0] ?? "";
      return `${name}${quote}${mask}${quote}`;
    })
    .replaceAll(opaque, (run) => (/[a-z]/.test(run) && /[A-Z]/.test(run) && /\d/.test(run) ? mask : run));
}

/** True for a header whose whole value is masked. */
const isSecretHeader = (name: string): boolean => secretName.test(name) || /^(?:proxy-)?auth/i.test(name);

/** Challenges and the like: the scheme stays, the parameters do not (RFC 9110 section 11.6.1). */
export function maskedHeader(name: string, value: string, masked: Masker): string {
  if (/^(?:www|proxy)-authenticate$/i.test(name)) return `${/^[\w-]{1,30}/.exec(value)?.[0] ?? ""} ${mask}`.trim();
  return isSecretHeader(name) ? mask : masked(value);
}
