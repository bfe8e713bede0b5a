export { lockSealing } from "./pack-queries.ts";
