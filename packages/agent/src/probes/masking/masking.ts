import { mask } from "@statusmesh/shared/secrets";
import { isSecretName } from "./secret-names.ts";
import { secretValues } from "./secret-values.ts";

/** Parts of a secret shorter than this are masked only together with the rest of it. */
export const leastPart = 6;
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
  const patterns = forms.map(patternOf);
  return (text, isCut = false) => {
    let masked = text;
    for (const pattern of patterns) masked = masked.replaceAll(pattern, mask);
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

const hex = (character: string, width: number): string => character.charCodeAt(0).toString(16).padStart(width, "0");
/** How libraries write the characters that HTML or JSON reserves. */
const escapes: readonly ((character: string) => string)[] = [
  ...["&quot;", "&#34;"].flatMap((double) =>
    ["&#39;", "&#039;", "&#x27;", "&apos;", "'"].map((single) => {
      const written: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': double, "'": single };
      return (character: string): string => written[character]!;
    }),
  ),
  (character) => `&#${character.charCodeAt(0)};`,
  (character) => `&#x${hex(character, 2)};`,
  (character) => `\\u${hex(character, 4)}`,
];

/** Plain, in JSON, in URLs, in HTML, in base64, and with the bytes of the header read in another character set. */
function formsOf(secret: string): string[] {
  const encoded = encodeURIComponent(Buffer.from(secret).toString());
  return [
    secret,
    JSON.stringify(secret).slice(1, -1),
    encoded,
    encoded.replaceAll(/%[\dA-F]{2}/g, (code) => code.toLowerCase()),
    encoded.replaceAll("%20", "+"),
    encodeURIComponent(encoded),
    JSON.stringify(secret).slice(1, -1).replaceAll("/", "\\/"),
    JSON.stringify(JSON.stringify(secret).slice(1, -1)).slice(1, -1),
    ...escapes.map((escape) => secret.replaceAll(/[&<>"']/g, escape)),
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

/** Any case, because servers change it in what they echo. */
function patternOf(form: string): RegExp {
  const escaped = form.replaceAll(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
  return new RegExp(form.length >= leastInside ? escaped : `(?<![\\p{L}\\p{N}])${escaped}(?![\\p{L}\\p{N}])`, "giu");
}

/** The text without an end that is the beginning of a secret. */
function withoutRest(text: string, forms: readonly string[]): string {
  let longest = 0;
  const end = text.toLowerCase();
  for (const form of forms)
    for (let length = Math.min(form.length - 1, text.length); length > Math.max(longest, leastRest - 1); length--)
      if (end.endsWith(form.slice(0, length).toLowerCase())) longest = length;
  return longest === 0 ? text : text.slice(0, -longest) + mask;
}

const privateKey =
  /-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----[^-]*(?:-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?/g;
/** RFC 7519: both parts of a JSON Web Token that matter are base64url of a JSON object. */
const jsonWebToken = /\beyJ[\w-]{5,}\.[\w-]{5,}(?:\.[\w-]*)?/g;
/** Prefixes that vendors give their keys so that scanners find them. */
const vendorPrefixes =
  "gh[pousr]_|github_pat_|glpat-|xox[abeoprs]-|sk-|[spr]k_(?:live|test)_|AKIA|ASIA|AIza|ya29\\.|SG\\.|npm_|sm_[a-z]+_";
const vendorKey = new RegExp(`\\b(?:${vendorPrefixes})[\\w.-]{8,}`, "g");
const scheme = /\b(bearer|basic|digest|negotiate|apikey)(\s{1,5})(?=[^\s\d]{0,200}\d)[\w+/=.~-]{8,}/gi;
const userInfo = /(\b[a-z][a-z\d+.-]{0,20}:\/\/)(?:[^\s/@:"'<>]{0,200}:[^\s/"'<>]{1,200}|[^\s/@:"'<>]{16,200})@/gi;
/** `jdbc:oracle:thin:scott/tiger@host`, `curl -u user:password` and `mysql -ppassword` */
const userAndPassword =
  /(\bthin:[^\s/@]{1,60}\/|\s(?:-u|--user)[ =]["']?[^\s:"']{1,60}:|\bmysql\w{0,9}\s[^\r\n]{0,99}?\s-p)[^\s@"']{1,200}/g;
/** Addresses of webhooks and bots that are secrets themselves. */
const secretPath =
  /(hooks\.slack\.com\/(?:services|workflows)\/|\/api(?:\/v\d+)?\/webhooks\/|\/bot(?=\d{6,}:))[\w/:-]{10,200}/gi;
/** Modular crypt format: bcrypt, Argon2, SHA-crypt, scrypt; and the hashes of Django. */
const passwordHash = /\$(?:2[abxy]|argon2\w{1,2}|[156]|scrypt)\$[\w./$=,+-]{8,200}|\bpbkdf2_sha\d+\$[\w./$=+]{8,200}/g;
const opaque = /[\w+-]{40,}={0,2}/g;

function withoutTokens(text: string): string {
  return withoutValues(text.replaceAll(privateKey, mask))
    .replaceAll(jsonWebToken, mask)
    .replaceAll(vendorKey, mask)
    .replaceAll(passwordHash, mask)
    .replaceAll(secretPath, `$1${mask}`)
    .replaceAll(scheme, `$1$2${mask}`)
    .replaceAll(userInfo, `$1${mask}@`)
    .replaceAll(userAndPassword, `$1${mask}`)
    .replaceAll(opaque, (run) => (/[a-z]/.test(run) && /[A-Z]/.test(run) && /\d/.test(run) ? mask : run));
}

function withoutValues(text: string): string {
  let masked = "";
  let at = 0;
  for (const { start, end } of secretValues(text)) {
    masked += text.slice(at, start) + mask;
    at = end;
  }
  return masked + text.slice(at);
}

/** True for a header whose whole value is masked. */
const isSecretHeader = (name: string): boolean =>
  name.toLowerCase() !== "refresh" && (isSecretName(name) || /^(?:proxy-)?auth/i.test(name));

/** Challenges and the like: the scheme stays, the parameters do not (RFC 9110 section 11.6.1). */
export function maskedHeader(name: string, value: string, masked: Masker): string {
  if (/^(?:www|proxy)-authenticate$/i.test(name)) return `${/^[\w-]{1,30}/.exec(value)?.[0] ?? ""} ${mask}`.trim();
  return isSecretHeader(name) && !/^(?:true|false)?$/i.test(value) ? mask : masked(value);
}
