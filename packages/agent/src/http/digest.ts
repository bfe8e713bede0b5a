import { createHash, randomBytes } from "node:crypto";

/* Digest authentication (RFC 7616): MD5 and SHA-256, their -sess forms, qop auth or none. */

interface Challenge {
  scheme: string;
  params: ReadonlyMap<string, string>;
}

const hashes: Readonly<Record<string, string>> = { md5: "md5", "sha-256": "sha256" };

/** Challenges of WWW-Authenticate values, several of which may stand in one value (RFC 9110 section 11.6.1). */
export function challengesIn(values: readonly string[]): Challenge[] {
  const found: { scheme: string; params: Map<string, string> }[] = [];
  const part = /([!#$%&'*+\-.^_`|~\w]+)(?:\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]*))|(?=[\s,]|$))[\s,]*/gy;
  for (const value of values) {
    part.lastIndex = value.length - value.trimStart().length;
    for (let match = part.exec(value); match !== null; match = part.exec(value)) {
      const [, name, quoted, plain] = match;
      if (quoted === undefined && plain === undefined) found.push({ scheme: name!.toLowerCase(), params: new Map() });
      else found.at(-1)?.params.set(name!.toLowerCase(), quoted?.replaceAll(/\\(.)/g, "$1") ?? plain!);
    }
  }
  return found;
}

export interface DigestRequest {
  method: string;
  /** As in the request line. */
  uri: string;
  user: string;
  password: string;
}

/** The answer to the strongest challenge that can be answered, or why there is none. */
export function digestAnswer(
  values: readonly string[],
  request: DigestRequest,
  cnonce = randomBytes(16).toString("hex"),
): { authorization: string; nonce: string; isStale: boolean } | { error: string } {
  const offers = challengesIn(values);
  const usable = offers
    .filter(({ scheme }) => scheme === "digest")
    .map(({ params }) => ({ params, algorithm: params.get("algorithm") ?? "MD5" }))
    .filter(({ algorithm }) => hashes[algorithm.toLowerCase().replace(/-sess$/, "")] !== undefined)
    .sort((a, b) => Number(/^sha/i.test(b.algorithm)) - Number(/^sha/i.test(a.algorithm)));
  const [best] = usable;
  if (best === undefined) {
    const schemes = [
      ...new Set(offers.map(({ scheme, params }) => [scheme, params.get("algorithm")].join(" ").trim())),
    ];
    return { error: `the server asks for ${schemes.join(", ").slice(0, 100) || "no authentication"}, not for digest` };
  }
  const { params, algorithm } = best;
  const qops =
    params
      .get("qop")
      ?.split(",")
      .map((one) => one.trim().toLowerCase()) ?? null;
  if (qops !== null && !qops.includes("auth"))
    return { error: `the server asks for digest with qop ${qops.join(", ")}` };
  const nonce = params.get("nonce");
  if (nonce === undefined) return { error: "the server asks for digest without a nonce" };

  const realm = params.get("realm") ?? "";
  const hash = (text: string): string =>
    createHash(hashes[algorithm.toLowerCase().replace(/-sess$/, "")]!)
      .update(text, "utf8")
      .digest("hex");
  const { user, password, method, uri } = request;
  const own = hash(`${user}:${realm}:${password}`);
  const a1 = algorithm.toLowerCase().endsWith("-sess") ? hash(`${own}:${nonce}:${cnonce}`) : own;
  const a2 = hash(`${method}:${uri}`);
  const nc = "00000001";
  const response = qops === null ? hash(`${a1}:${nonce}:${a2}`) : hash(`${a1}:${nonce}:${nc}:${cnonce}:auth:${a2}`);
  const isHashed = params.get("userhash")?.toLowerCase() === "true";
  const fields = [
    usernameField(isHashed ? hash(`${user}:${realm}`) : user, params.has("charset")),
    `realm=${quoted(realm)}`,
    `nonce=${quoted(nonce)}`,
    `uri=${quoted(uri)}`,
    ...(params.has("algorithm") ? [`algorithm=${algorithm}`] : []),
    `response="${response}"`,
    ...(params.has("opaque") ? [`opaque=${quoted(params.get("opaque")!)}`] : []),
    ...(qops === null ? [] : ["qop=auth", `nc=${nc}`]),
    ...(qops === null && a1 === own ? [] : [`cnonce="${cnonce}"`]),
    ...(isHashed ? ["userhash=true"] : []),
  ];
  const isStale = params.get("stale")?.toLowerCase() === "true";
  // As UTF-8: the request is written as latin1.
  const authorization = Buffer.from(`Digest ${fields.join(", ")}`, "utf8").toString("latin1");
  return { authorization, nonce, isStale };
}

const quoted = (text: string): string => `"${text.replaceAll(/["\\]/g, "\\$&")}"`;

/**
 * RFC 7616 section 3.4: `username*` in the form of RFC 5987 for a name beyond ASCII. Only for servers that announce a
 * charset: Apache does not, and knows `username` only.
 */
function usernameField(user: string, hasCharset: boolean): string {
  if (!hasCharset || /^[\x20-\x7e]*$/.test(user)) return `username=${quoted(user)}`;
  const encoded = encodeURIComponent(user).replaceAll(
    /['()*]/g,
    (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `username*=UTF-8''${encoded}`;
}
