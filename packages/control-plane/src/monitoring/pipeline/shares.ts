import type { CheckSpec } from "@statusmesh/shared/checks";
import { isAble, neededName } from "@statusmesh/shared/checks/abilities";
import { hash32 } from "@statusmesh/shared/schedule";
import { getOrMake } from "../../platform/caches.ts";
import { type LiveAgent, sharersOf } from "../agents/service.ts";

/** How the connected agents of a region share its targets: each target is run by one of those that can run it. */
export interface Shares {
  /** The agent that runs the target; null where none can. */
  ownerOf(targetId: string, spec: CheckSpec): string | null;
  /**
   * True when the agent may have run the target before a change of it. Exact where the agents are alike; else any may
   * have, as an edit of the check can move it.
   */
  mayHaveRun(agentId: string, targetId: string): boolean;
  /** Changes with the agents and with what they can run. */
  readonly digest: string;
}

export function openShares(agents: readonly LiveAgent[]): Shares {
  const everyone = sharersOf(agents);
  const alike = new Set(agents.map(({ kinds }) => JSON.stringify(kinds))).size <= 1;
  const able = new Map<string, string[]>();
  const ableFor = (spec: CheckSpec): string[] =>
    getOrMake(able, `${spec.type} ${neededName(spec) ?? ""}`, () =>
      sharersOf(agents.filter(({ kinds }) => isAble(kinds, spec))),
    );
  return {
    ownerOf: (targetId, spec) => ownerOf(targetId, ableFor(spec)),
    mayHaveRun: (agentId, targetId) => !alike || ownerOf(targetId, everyone) === agentId,
    digest: JSON.stringify([
      everyone,
      // Whether an agent is impaired matters only to those that cannot replace each other.
      alike ? (agents[0]?.kinds ?? {}) : agents.map(({ id, impaired, kinds }) => [id, impaired, kinds]),
    ]),
  };
}

/**
 * Rendezvous hashing: each target belongs to the agent with the highest score, so a change of agents moves few targets.
 */
export function ownerOf(targetId: string, agents: readonly string[]): string | null {
  let owner: string | null = null;
  let best = -1;
  for (const agent of agents) {
    const score = hash32(`${agent}/${targetId}`);
    if (score > best) [owner, best] = [agent, score];
  }
  return owner;
}
