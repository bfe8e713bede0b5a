export { type TakeAgentPings } from "./agent-pings.ts";
