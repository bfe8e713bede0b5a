/*
 * What jobs use of this domain, and no other domain does.
 */
export { generateOccurrences } from "./occurrences.ts";
