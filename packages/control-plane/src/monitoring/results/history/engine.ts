export { changeColumns, changesOfRuns } from "./change-queries.ts";
export { keepWarnings, type WarningsRow } from "./details-queries.ts";
export { keepCertificates, keepDetails, withOwnDetails } from "./details.ts";
