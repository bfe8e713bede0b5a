import { readFileSync } from "node:fs";
import type { Bodies } from "@statusmesh/shared/declared/check";

/** The schemas of the API's requests, as they were when this program was built. */
export const requestBodies = (): Bodies =>
  JSON.parse(readFileSync(new URL("../dist/request-bodies.json", import.meta.url), "utf8")) as Bodies;
