import { AppError } from "@statusmesh/shared/errors";
import { messageOf } from "@statusmesh/shared/thrown";
import type { Config } from "../../config/config.ts";
import type { AbuseLists, System } from "../../platform/context.ts";
import type { Log } from "../../platform/process/log.ts";
import { StartupError } from "../../config/startup-error.ts";
import { readList } from "./files.ts";
import { compileDomains, compilePatterns, defaultUrlPatterns } from "./lists.ts";

type Lists = Pick<AbuseLists, "pattern" | "domain">;

/** Reads the lists. Throws StartupError for an invalid file. */
export function openAbuseLists(config: Config["abuse"], log: Log): AbuseLists {
  let lists = readLists(config);
  return {
    pattern: (url) => lists.pattern(url),
    domain: (host) => lists.domain(host),
    reload() {
      try {
        lists = readLists(config);
        log.info(
          {
            url_patterns_file: config.url_patterns_file || null,
            domain_denylist_file: config.domain_denylist_file || null,
          },
          "abuse lists read again",
        );
      } catch (error) {
        log.error({ reason: messageOf(error) }, "abuse lists could not be read again: the old ones stay");
      }
    },
  };
}

function readLists({ url_patterns_file, domain_denylist_file }: Config["abuse"]): Lists {
  const using = <T>(key: string, file: string, read: () => T): T => {
    try {
      return read();
    } catch (error) {
      throw new StartupError(`abuse.${key}: ${file} cannot be used: ${messageOf(error)}`, { cause: error });
    }
  };
  return {
    pattern: using("url_patterns_file", url_patterns_file, () =>
      compilePatterns(url_patterns_file === "" ? defaultUrlPatterns : readList(url_patterns_file, "url_patterns")),
    ),
    domain: using("domain_denylist_file", domain_denylist_file, () =>
      compileDomains(domain_denylist_file === "" ? [] : readList(domain_denylist_file, "domains")),
    ),
  };
}

/** Throws DOMAIN_DENYLISTED for a listed host or a host below a listed domain. `field` points to it. */
export function refuseDeniedHost({ abuse }: Pick<System, "abuse">, host: string, field: string | null): void {
  const domain = abuse.domain(host);
  if (domain !== null)
    throw new AppError(
      "DOMAIN_DENYLISTED",
      `The operator of this instance does not allow ${domain} and what lies below it.`,
      { field, details: { domain } },
    );
}

/**
 * Throws URL_PATTERN_BLOCKED for a recon path, and ABUSE_BLOCKED for the API of this installation: a monitor that calls
 * it could trigger itself in a loop.
 */
export function refuseAbusiveUrl(
  { abuse, config }: Pick<System, "abuse" | "config">,
  url: URL,
  field: string | null,
): void {
  const pattern = abuse.pattern(url);
  if (pattern !== null) {
    throw new AppError(
      "URL_PATTERN_BLOCKED",
      `Paths like ${pattern} are not monitored: they are what attackers look for.`,
      { field, details: { pattern } },
    );
  }
  if (url.host === new URL(config.server.public_url).host && url.pathname.startsWith("/api/")) {
    throw new AppError(
      "ABUSE_BLOCKED",
      "A monitor cannot call the API of StatusMesh itself. To watch this service, check /healthz.",
      { field, details: { reason: "own_api" } },
    );
  }
}
