export { actorOf as callerOf, listEvents } from "./events.ts";
export { listUpdates, narrateIncident, postNote, postUpdate } from "./narration.ts";
export { isPublished } from "./publication-queries.ts";
export { listSnapshots, purgeSnapshots, resealSnapshots } from "./snapshots.ts";
