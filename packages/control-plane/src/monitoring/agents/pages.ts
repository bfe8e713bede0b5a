import type { System } from "../../platform/context.ts";
import { page } from "../../platform/html/pages.ts";
import type { StateName } from "../../platform/html/format.ts";
import { version } from "../../platform/program.ts";
import { regionsWithAgents, type RegionWithAgents } from "./service.ts";

type AgentRow = RegionWithAgents["agents"][number];

/** State of an agent: colour, word, and since when (RFC 3339; null where it never connected). */
function agentState(agent: AgentRow): { state: StateName; word: string; since: string | null } {
  if (agent.live && agent.impaired_since !== null)
    return { state: "degraded", word: "Network down", since: agent.impaired_since };
  if (agent.live) return { state: "up", word: "Live", since: null };
  if (agent.last_seen_at === null) return { state: "unknown", word: "Never connected", since: null };
  return { state: "down", word: agent.has_left ? "Stopped" : "Offline", since: agent.last_seen_at };
}

/** State of a region: whether its monitors are checked. */
function regionState({ enabled, agents }: RegionWithAgents): { state: StateName; word: string } {
  if (!enabled) return { state: "paused", word: "Disabled" };
  if (agents.some((agent) => agent.live && agent.impaired_since === null)) return { state: "up", word: "Checking" };
  if (agents.some(({ live }) => live)) return { state: "degraded", word: "Network down" };
  return agents.every((agent) => agent.last_seen_at === null)
    ? { state: "unknown", word: "No agent" }
    : { state: "down", word: "Not checking" };
}

const tokenPlace = "{token}";

/** Commands that install and start an agent, per way of running it. `{token}` stands for its token. */
export function installCommands({ config }: Pick<System, "config">): { id: string; title: string; text: string }[] {
  const url = config.server.public_url;
  const { protocol, hostname } = new URL(url);
  const isPlain = protocol === "http:" && !["localhost", "127.0.0.1", "[::1]"].includes(hostname);
  const tarball = `sm-agent-${version}.tgz`;
  return [
    {
      id: "npm",
      title: "npm",
      text: [
        "mkdir -p ~/.statusmesh && chmod 700 ~/.statusmesh",
        `printf %s '${tokenPlace}' > ~/.statusmesh/agent-token`,
        `npm install -g ${tarball}`,
        `sm-agent run --url ${url}${isPlain ? " --insecure-http" : ""} \\`,
        "  --token-file ~/.statusmesh/agent-token --spool-dir ~/.statusmesh/spool",
      ].join("\n"),
    },
    {
      id: "systemd",
      title: "systemd",
      text: [
        "sudo install -d -m 0755 /etc/statusmesh",
        `printf %s '${tokenPlace}' | sudo install -m 0600 /dev/stdin /etc/statusmesh/agent-token`,
        `printf '%s\\n' SM_AGENT_URL=${url}${isPlain ? " SM_AGENT_INSECURE_HTTP=true" : ""} |`,
        "  sudo tee /etc/statusmesh/agent.env",
        `sudo npm install -g ${tarball}`,
        "sudo cp infra/systemd/sm-agent.service /etc/systemd/system/",
        "sudo systemctl enable --now sm-agent",
      ].join("\n"),
    },
    {
      id: "docker",
      title: "Docker",
      text: [
        "docker build -f infra/docker/agent.Dockerfile -t sm-agent .",
        "docker run -d --name sm-agent --restart unless-stopped --read-only \\",
        "  -v sm-agent-spool:/var/lib/sm-agent \\",
        `  -e SM_AGENT_URL=${url} ${isPlain ? "-e SM_AGENT_INSECURE_HTTP=true " : ""}\\`,
        `  -e SM_AGENT_TOKEN='${tokenPlace}' sm-agent`,
      ].join("\n"),
    },
  ];
}

export const agentPages = [
  page("/settings/regions", "tenant", async ({ ctx }) => {
    const regions = await regionsWithAgents(ctx);
    const { hostname } = new URL(ctx.config.server.public_url);
    return {
      view: "agents/regions",
      fragment: "agents/regions-live",
      data: {
        regions: regions.map((region) => ({
          ...region,
          ...regionState(region),
          agents: region.agents.map((agent) => ({ ...agent, ...agentState(agent) })),
        })),
        version,
        /** Buttons are for owners; the operator secret decides. */
        manages: ctx.role === "owner" && ctx.config.operator.admin_token !== "",
        owner: ctx.role === "owner",
        commands: installCommands(ctx),
        isLocal: ["localhost", "127.0.0.1", "[::1]"].includes(hostname),
        url: ctx.config.server.public_url,
      },
    };
  }),
];
