import { readFileSync } from "node:fs";
import type { Bodies } from "@statusmesh/shared/declared/check";

/* Files of this package. Modules of the published program, as this one, are one folder below its root. */

/** The version of this package. */
export const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as {
  version: string;
};

/** The schemas of the API's requests, as they were when this program was built. */
export const requestBodies = (): Bodies =>
  JSON.parse(readFileSync(new URL("../dist/request-bodies.json", import.meta.url), "utf8")) as Bodies;
