import Type, { type Static } from "typebox";
import { flag, origin, origins, whole } from "./reader.ts";

export const mcp = Type.Object({
  enabled: flag(false, "Serves the Model Context Protocol at /mcp"),
  oauth_enabled: flag(false, "Lets MCP clients get their tokens by OAuth 2.1; needs mcp.enabled and resource_uri"),
  resource_uri: origin(
    "Origin of the MCP server on its own host, and audience of its tokens; empty: server.public_url, no audience",
    "https://mcp.example.org",
  ),
  allowed_origins: origins(
    "Web pages that may call /mcp, as origins; empty: any, and clients without Origin always may",
  ),
  require_protocol_version: flag(
    true,
    "Refuses requests without MCP-Protocol-Version; false: they have the version of their session",
  ),
  access_token_ttl_secs: whole(3600, 1, 86_400, "Lifetime of an access token that OAuth issues, seconds"),
});

/** Path of the MCP server on its host. */
export const mcpPath = "/mcp";

/** Paths of the resource metadata: for the origin and for the address of the server (RFC 9728, section 3.1). */
const metadataPath = "/.well-known/oauth-protected-resource";
export const resourceMetadataPaths = [metadataPath, `${metadataPath}${mcpPath}`] as const;

/** Address of the MCP server, as people give it to a client. */
export const mcpAddress = ({ mcp: settings, server }: Pick<McpSettings, "mcp" | "server">): string =>
  `${settings.resource_uri || server.public_url}${mcpPath}`;

/** Address of the metadata that belongs to {@link mcpAddress}. Needs `mcp.resource_uri`. */
export const resourceMetadataAddress = ({ mcp: settings }: Pick<McpSettings, "mcp">): string =>
  `${settings.resource_uri}${metadataPath}${mcpPath}`;

interface McpSettings {
  mcp: Static<typeof mcp>;
  auth: { public_base_url: string; required: boolean };
  server: { public_url: string };
}

/** One line per contradiction of the MCP settings. Call it before {@link settleMcp}. */
export function mcpProblems({ mcp: settings, auth, server }: McpSettings): string[] {
  const { enabled, oauth_enabled, resource_uri, allowed_origins } = settings;
  const problems: string[] = [];
  for (const [key, value] of [
    ["mcp.resource_uri", resource_uri],
    ["auth.public_base_url", auth.public_base_url],
    ...allowed_origins.map((origin) => ["mcp.allowed_origins", origin] as const),
  ] as const)
    if (value !== "" && !URL.canParse(value)) problems.push(`${key} is not a URL: ${value}`);
  if (!oauth_enabled) return problems;
  if (!enabled) problems.push("mcp.oauth_enabled needs mcp.enabled: set it to true, or switch OAuth off");
  if (!auth.required)
    problems.push(
      "mcp.oauth_enabled needs auth.required: without sign-in everybody who opens the consent page could approve it",
    );
  if (!isHttps(resource_uri))
    problems.push(
      `mcp.oauth_enabled needs mcp.resource_uri, an https origin like https://mcp.example.org${not(resource_uri)}`,
    );
  if (!isHttps(auth.public_base_url || server.public_url))
    problems.push(
      "mcp.oauth_enabled needs auth.public_base_url, an https origin like https://status.example.org" +
        (auth.public_base_url === ""
          ? `; it is empty, and server.public_url is no https origin`
          : not(auth.public_base_url)),
    );
  return problems;
}

const not = (value: string): string => (value === "" ? "" : `, not ${value}`);
/** The pattern of the key excludes a path, a query, a fragment and a user. */
const isHttps = (value: string): boolean => URL.canParse(value) && new URL(value).protocol === "https:";
const originOf = (value: string): string => (value === "" ? "" : new URL(value).origin);

/**
 * Normalises the origins (lower case, no default port, no slash at the end). An empty `auth.public_base_url` becomes
 * `server.public_url`: afterwards it is the issuer.
 */
export function settleMcp({ mcp: settings, auth, server }: McpSettings): void {
  settings.resource_uri = originOf(settings.resource_uri);
  settings.allowed_origins = settings.allowed_origins.map(originOf);
  auth.public_base_url = originOf(auth.public_base_url) || server.public_url;
}
