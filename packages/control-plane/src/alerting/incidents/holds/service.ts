export { reconsiderDependencies } from "./dependency-queries.ts";
