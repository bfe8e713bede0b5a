/*
 * Functions for jobs only; other domains use service.ts.
 */
export { generateOccurrences } from "./occurrences.ts";
