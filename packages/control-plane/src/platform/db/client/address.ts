import { StartupError } from "../../../config/startup-error.ts";

/** Location of a database: a configured URL, or the Unix socket of the embedded one. */
export type DatabaseAddress =
  | { readonly url: string; /** Configuration key, for messages. */ readonly key?: string }
  | {
      readonly path: string;
      readonly database: string;
      readonly username: string;
      /** A function is called for every connection. */
      readonly password?: string | (() => string);
    };

/** A database URL, which may name several hosts: `postgres://user:password@one:5432,two:5433/name`. */
export interface ParsedUrl {
  /** The URL with its first host only, which every URL parser accepts. */
  readonly single: URL;
  /** Tried in this order. Empty when the URL names no host: PGHOST or localhost counts then. */
  readonly hosts: readonly { readonly host: string; readonly port: number; readonly written: string }[];
}

/** RFC 3986 authority: everything from the last @ to the path. IPv6 addresses stand in brackets. */
const authority = /^(postgres(?:ql)?:\/\/)(?:([^/?#]*)@)?([^/?#@]*)([/?#].*)?$/;
const hostAndPort = /^(\[[0-9a-fA-F:.]+\]|[^:[\]]*)(?::(\d{1,5}))?$/;

/** Throws StartupError, which never contains the password. */
export function parseUrl({ url, key = "database.url" }: { url: string; key?: string }): ParsedUrl {
  const [, scheme, user, hosts = "", rest = ""] = authority.exec(url) ?? [];
  const list = hosts === "" ? [] : hosts.split(",").map((one) => hostAndPort.exec(one));
  const text = `${scheme}${user === undefined ? "" : `${user}@`}${list[0]?.[0] ?? ""}${rest}`;
  if (scheme === undefined || list.some((one) => one === null || one[1] === "") || !URL.canParse(text)) {
    throw new StartupError(
      `${key} is not a URL like postgres://user:password@host:5432/name. Write special characters in the password ` +
        "as %XX. Several hosts are separated by commas: postgres://user:password@one:5432,two:5432/name.",
    );
  }
  return {
    single: new URL(text),
    hosts: list.map((one) => ({
      host: one![1]!.replace(/^\[|\]$/g, ""),
      port: Number(one![2] ?? 5432),
      written: one![0],
    })),
  };
}

/** Database name, hosts and ports for messages; never the password. */
export function nameOf(address: DatabaseAddress): string {
  if ("path" in address) return `at ${address.path}`;
  const { single, hosts } = parseUrl(address);
  const places = hosts.map(({ written }) => written).join(", ") || "localhost";
  return `${single.pathname.slice(1) || "(no name)"} at ${places}`;
}
