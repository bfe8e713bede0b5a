import { domainToASCII } from "node:url";
import { isIP } from "node:net";

/*
 * Patterns and domains that may not be monitored. Pure functions.
 */

/**
 * Default recon paths. Paths with a legitimate use (`/phpmyadmin/`, `/solr/admin/ping`) are not listed.
 * `abuse.url_patterns_file` replaces this list. A pattern matches at any depth, case-insensitive. A name at its end
 * matches whole names (`/.env` matches `/app/.env` and `/.env.local`, not `/.environment`); `*` matches within a name.
 */
export const defaultUrlPatterns: readonly string[] = [
  "/.git/",
  "/.svn/",
  "/.hg/",
  "/.env",
  "/.aws/",
  "/.ssh/",
  "/.htpasswd",
  "/.DS_Store",
  "/wp-admin/setup-config.php",
  "/wp-admin/install.php",
  "/wp-config.php",
  "/phpinfo.php",
  "/vendor/phpunit/",
  "/etc/passwd",
  "/proc/self/",
  "/actuator/env",
  "/actuator/heapdump",
  "/HNAP1",
  "/boaform/",
];

/** Returns the pattern that the path of a URL matches, or null. Throws for an invalid pattern. */
export function compilePatterns(patterns: readonly string[]): (url: URL) => string | null {
  const compiled = patterns.map((pattern) => ({ pattern, fits: compile(pattern) }));
  return (url) => {
    const path = readable(url.pathname);
    return compiled.find(({ fits }) => fits.test(path))?.pattern ?? null;
  };
}

function compile(pattern: string): RegExp {
  if (!pattern.startsWith("/") || pattern.length < 2)
    throw new TypeError(`"${pattern}" is not a pattern: a pattern is a path that begins with a slash, like /.git/`);
  const body = pattern
    .split("*")
    .map((part) => part.replaceAll(/[\\^$.|?+()[\]{}]/g, "\\$&"))
    .join("[^/]*");
  return new RegExp(`${body}${/[\w-]$/.test(pattern) ? "(?![\\w-])" : ""}`, "i");
}

/** The path as a server reads it: percent-decoded, backslashes and repeated slashes normalised. */
function readable(path: string): string {
  let text = path;
  try {
    text = decodeURIComponent(path);
  } catch {
    // Not UTF-8: decode the ASCII escapes, as a server does.
    text = path.replaceAll(/%([2-7][0-9a-f])/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  }
  return text.replaceAll("\\", "/").replaceAll(/\/{2,}/g, "/");
}

/** Returns the listed domain that equals the host or is a parent of it, or null. Throws for an invalid domain. */
export function compileDomains(domains: readonly string[]): (host: string) => string | null {
  const denied = new Map(domains.map((domain) => [canonical(domain), domain]));
  return (host) => {
    const name = asciiName(host);
    if (isIP(name) !== 0) return denied.get(name) ?? null;
    for (let rest = name; rest !== ""; rest = rest.includes(".") ? rest.slice(rest.indexOf(".") + 1) : "") {
      const found = denied.get(rest);
      if (found !== undefined) return found;
    }
    return null;
  };
}

function canonical(domain: string): string {
  const name = asciiName(domain.trim().replace(/^\*?\./, ""));
  if (name === "" || !/^[a-z0-9_.:-]+$/.test(name)) throw new TypeError(`"${domain}" is not a domain like example.org`);
  return name;
}

const asciiName = (host: string): string => {
  const bare = host.toLowerCase().replace(/\.$/, "");
  return isIP(bare) === 0 ? domainToASCII(bare) || bare : bare;
};
