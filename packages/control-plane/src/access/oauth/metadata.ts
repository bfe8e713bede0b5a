import { mcpAddress } from "../../config/mcp-keys.ts";
import type { Config } from "../../config/config.ts";
import type { Scope } from "../../platform/context.ts";

/** True when MCP clients get tokens by OAuth. */
export const oauthEnabled = ({ mcp }: Config): boolean => mcp.enabled && mcp.oauth_enabled;

/** Issuer of the authorization server, without a trailing slash. */
export const issuerOf = ({ auth }: Config): string => auth.public_base_url;

/** Authorization server metadata (RFC 8414, section 2). `offered`: the scopes that clients can request. */
export function serverMetadata(config: Config, offered: readonly Scope[]): object {
  const issuer = issuerOf(config);
  return {
    issuer,
    authorization_endpoint: `${issuer}/oauth/authorize`,
    token_endpoint: `${issuer}/oauth/token`,
    registration_endpoint: `${issuer}/oauth/register`,
    revocation_endpoint: `${issuer}/oauth/revoke`,
    scopes_supported: offered,
    response_types_supported: ["code"],
    response_modes_supported: ["query"],
    grant_types_supported: ["authorization_code", "refresh_token"],
    token_endpoint_auth_methods_supported: ["none"],
    revocation_endpoint_auth_methods_supported: ["none"],
    code_challenge_methods_supported: ["S256"],
    authorization_response_iss_parameter_supported: true,
    protected_resources: [mcpAddress(config), config.mcp.resource_uri],
  };
}

/**
 * Protected resource metadata (RFC 9728, section 2) of `resource`: the origin, or the address of the MCP server.
 * Clients compare it with the address that they have.
 */
export function resourceMetadata(config: Config, offered: readonly Scope[], resource: string): object {
  return {
    resource,
    authorization_servers: [issuerOf(config)],
    scopes_supported: offered,
    bearer_methods_supported: ["header"],
    resource_name: "StatusMesh",
  };
}
