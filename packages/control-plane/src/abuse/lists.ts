import { domainToASCII } from "node:url";
import { isIP } from "node:net";

/*
 * What may not be monitored. Pure: text in, answers out.
 */

/**
 * Paths that only somebody asks for who looks for a way in; none that people watch for good reason (`/phpmyadmin/`, `/solr/admin/ping`). What a file of `abuse.url_patterns_file` lists replaces them.
 * A pattern fits wherever its first slash fits one of the path, whatever the case; a name at its end fits a whole name
 * (`/.env` fits `/app/.env` and `/.env.local`, and not `/.environment`), and `*` fits anything within a name.
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

/** Which pattern of a list the path of a URL fits; null for none. Throws for a pattern that is none. */
export function compilePatterns(patterns: readonly string[]): (url: URL) => string | null {
  const compiled = patterns.map((pattern) => ({ pattern, fits: compile(pattern) }));
  return (url) => {
    const path = readable(url.pathname);
    return compiled.find(({ fits }) => fits.test(path))?.pattern ?? null;
  };
}

function compile(pattern: string): RegExp {
  if (!pattern.startsWith("/") || pattern.length < 2)
    throw new TypeError(`"${pattern}" is not a pattern: it begins with a slash and goes on, like /.git/`);
  const body = pattern
    .split("*")
    .map((part) => part.replaceAll(/[\\^$.|?+()[\]{}]/g, "\\$&"))
    .join("[^/]*");
  return new RegExp(`${body}${/[\w-]$/.test(pattern) ? "(?![\\w-])" : ""}`, "i");
}

/** The path as a server would read it: escapes opened, backslashes and doubled slashes made one. */
function readable(path: string): string {
  let text = path;
  try {
    text = decodeURIComponent(path);
  } catch {
    // Not UTF-8: what can be opened is ASCII, and a server sees that too.
    text = path.replaceAll(/%([2-7][0-9a-f])/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  }
  return text.replaceAll("\\", "/").replaceAll(/\/{2,}/g, "/");
}

/** Which name of a list a host is or lies below; null for none. Throws for a name that is none. */
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
