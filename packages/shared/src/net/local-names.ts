import { readFileSync, statSync } from "node:fs";

const maxAgeMs = 5000;

/** What a function makes of a small text file, read anew when the file has changed; for no file, of an empty text. */
function fromFile<T>(file: string, parse: (text: string) => T): () => T {
  let readAt = -Infinity;
  let mtime = -1;
  let parsed = parse("");
  return () => {
    if (performance.now() - readAt < maxAgeMs) return parsed;
    readAt = performance.now();
    try {
      const changed = statSync(file).mtimeMs;
      if (changed !== mtime) parsed = parse(readFileSync(file, "utf8"));
      mtime = changed;
    } catch {
      parsed = parse("");
      mtime = -1;
    }
    return parsed;
  };
}

const wordsOf = (line: string): string[] =>
  line
    .replace(/[#;].*/, "")
    .trim()
    .toLowerCase()
    .split(/\s+/);

/** Addresses by name, of a hosts file (hosts(5)). */
export const hostsIn = (file: string): (() => ReadonlyMap<string, string[]>) =>
  fromFile(file, (text) => {
    const hosts = new Map<string, string[]>();
    for (const line of text.split("\n")) {
      const [address = "", ...names] = wordsOf(line);
      for (const name of names) hosts.set(name, [...new Set([...(hosts.get(name) ?? []), address])]);
    }
    return hosts;
  });

/** The search domains of a resolver configuration; the last line counts (resolv.conf(5)). */
export const searchDomainsIn = (file: string): (() => readonly string[]) =>
  fromFile(file, (text) => {
    const lines = text.split("\n").map(wordsOf);
    const [, ...domains] = lines.findLast(([key]) => key === "search" || key === "domain") ?? [];
    return domains.map((domain) => domain.replace(/\.$/, "")).filter((domain) => domain !== "");
  });

export const hostsFile = process.platform === "win32" ? "C:\\Windows\\System32\\drivers\\etc\\hosts" : "/etc/hosts";
export const resolverFile = "/etc/resolv.conf";
