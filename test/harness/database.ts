export { cloneDatabase, type TestDatabase } from "@statusmesh/control-plane/testing/postgres";
