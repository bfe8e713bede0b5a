export { isRouted, routeTables, routedTags, routedTargetIds, type RoutedChannel } from "./queries.ts";
export { byTag, checkedRoute, routedChannels, routesInWords } from "./routes.ts";
