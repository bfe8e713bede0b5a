const setOf = (words: string): ReadonlySet<string> => new Set(words.split(/\s+/));

/** Words that make a name one of a secret, wherever they stand. */
const strong = setOf(
  `password passwords passwd pwd passphrase passcode secret secrets token apikey credential credentials authorization
  jwt csrf xsrf otp mdp passwort kennwort contraseña contrasena senha пароль 密码 sessid viewstate samlresponse`,
);
/** Words that do so at the end of a name: in front they describe something else (`session_driver`, `auth_url`). */
const weak = setOf(
  "pass key keys auth session sessions sid cookie cookies signature sig pat pin bearer refresh tokens salt seed hmac",
);
/** What may follow a weak word. */
const tails = setOf(
  "id ids value values data hash base64 b64 plain prod production live test dev staging old new word phrase code",
);
/** Ends of words that are written without a separator: `csrfmiddlewaretoken`, `PGPASSWORD`. */
const glued = new RegExp(
  "(?:password|passwd|pwd|passphrase|secret|token|credentials?|sess(?:ion)?id(?:[a-z]{8})?|aspxauth|" +
    "(?:db|user|smtp|mail|mysql|ftp|root|admin)pass|" +
    "(?:api|access|auth|secret|private|signing|encryption|master|account|shared)key)$",
);
/** Last words of names of something about a secret: settings, classes, files. */
const aboutSecrets = setOf(
  `name names type types length len size count expires expire expired expiry expiration exp ttl age lifetime timeout at
  in on url uri endpoint path file dir domain host port user username driver store connection provider providers backend
  backends class policy rule rules hint algorithm alg method mode format version status error errors required enabled
  valid invalid missing limit usage scheme realm handler manager service factory middleware controller filter
  interceptor exception failure failed fault warning guard issuer audience scope scopes prefix secure httponly samesite
  serializer engine time date updated changed field column label placeholder source ref selector validator validators
  settings config options mismatch parser reader module js jsx ts tsx mjs cjs py rb php java go cs html json yml yaml
  xml vue rs c h cpp kt scala ex exs erl pl jsp aspx cshtml lock log md txt`,
);
/** Words in front of one that take its meaning away: `max_tokens`, `primary_key`, `InvalidToken`. */
const before = setOf(
  `unexpected no is has use uses require requires max min num total prompt completion primary
  foreign public partition sort cache surrogate idempotency routing unique composite row object range group
  duplicate socket translation`,
);
/** Names of errors: `InvalidAccessKeyId`, `django.core.signing.BadSignature`. */
const errorName = /(?:^|[.\\])(?:Invalid|Missing|Expired|Unexpected|Unknown|Bad|Incorrect|Wrong|Malformed|No)\p{Lu}/u;
/** Parameters of URLs that are secrets there and ordinary words elsewhere. */
const inUrls = setOf(
  "code state nonce ticket assertion samlrequest relaystate hash sign key verifier challenge invite magic t",
);

/** The words of a camel, snake or kebab case name, in lower case. */
const wordsOf = (name: string): string[] =>
  (name.match(/\p{Lu}+(?!\p{Ll})|\p{Lu}?[\p{Ll}\p{Lo}]+/gu) ?? []).map((word) => word.toLowerCase());

/** True for a name of a header, field, element or variable whose value is a secret. */
export function isSecretName(name: string): boolean {
  const words = wordsOf(name);
  if (aboutSecrets.has(words.at(-1) ?? "") || errorName.test(name)) return false;
  return words.some((word, at) => {
    if (at > 0 && before.has(words[at - 1]!)) return false;
    if (strong.has(word) || glued.test(word)) return true;
    return weak.has(word) && words.slice(at + 1).every((next) => tails.has(next));
  });
}

/** True for a parameter of a URL whose value is a secret. */
export const isSecretParameter = (name: string): boolean =>
  isSecretName(name) || inUrls.has(wordsOf(name).at(-1) ?? "");
