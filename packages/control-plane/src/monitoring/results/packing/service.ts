export { packState } from "./pack-state.ts";
