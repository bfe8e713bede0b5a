import { readFileSync } from "node:fs";

const packageJson: unknown = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));

/** The version of this package. */
export const version =
  typeof packageJson === "object" && packageJson !== null && "version" in packageJson
    ? String(packageJson.version)
    : "0.0.0";
