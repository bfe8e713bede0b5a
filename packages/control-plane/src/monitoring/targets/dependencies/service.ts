export { keepDependencies } from "./dependencies.ts";
