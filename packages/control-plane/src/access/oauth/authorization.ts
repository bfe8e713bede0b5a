import { isId } from "@statusmesh/shared/ids";
import { mcpAddress } from "../../config/mcp-keys.ts";
import type { Config } from "../../config/config.ts";
import type { Scope, System } from "../../platform/context.ts";
import { issuerOf } from "./metadata.ts";
import type { Parameters } from "./parameters.ts";
import { ConsentProblem, OAuthProblem } from "./problem.ts";
import * as queries from "./queries.ts";
import { answerAt, isRegistered } from "./redirects.ts";
import { requestedScopes } from "./scopes.ts";

/** The client of an authorization request and the address that gets the answer. */
export interface Addressee {
  readonly client: queries.ClientRow;
  readonly redirectUri: string;
  readonly state: string | null;
}

/** A valid authorization request. */
export interface AuthorizationRequest extends Addressee {
  readonly challenge: string;
  readonly scopes: readonly Scope[];
  /** `prompt=none`: the client wants an answer without a screen. */
  readonly silent: boolean;
}

/**
 * The addressee of an authorization request. Throws ConsentProblem while there is no address that may get an answer
 * (RFC 6749, section 4.1.2.1): for an unknown client or an address that it has not registered.
 */
export async function addresseeOf(system: System, asked: Parameters): Promise<Addressee> {
  const id = asked.get("client_id");
  const client =
    id === null || asked.isRepeated("client_id") || !isId(id)
      ? null
      : await queries.selectClient(system.sql, id, new Date(system.clock.now()));
  if (client === null)
    throw new ConsentProblem(
      400,
      "Unknown app",
      "The app that sent you here is not registered, or its registration has expired. " +
        "Remove the connection in the app and add it again.",
    );
  const redirectUri = asked.get("redirect_uri");
  if (redirectUri === null || asked.isRepeated("redirect_uri") || !isRegistered(redirectUri, client.redirect_uris))
    throw new ConsentProblem(
      400,
      "Redirect address not registered",
      "The app requested a redirect address that it has not registered. Nothing was sent to it. " +
        "Remove the connection in the app and add it again.",
    );
  return { client, redirectUri, state: asked.isRepeated("state") ? null : asked.get("state") };
}

/** The request of a known addressee. Throws an OAuthProblem for the client. */
export function authorizationOf(
  config: Config,
  offered: readonly Scope[],
  addressee: Addressee,
  asked: Parameters,
): AuthorizationRequest {
  asked.refuseRepeated();
  const type = asked.need("response_type");
  if (type !== "code") throw new OAuthProblem("unsupported_response_type", "The only response_type is code.");
  if ((asked.get("response_mode") ?? "query") !== "query")
    throw new OAuthProblem("invalid_request", "The only response_mode is query.");
  const challenge = asked.need("code_challenge");
  if (asked.get("code_challenge_method") !== "S256")
    throw new OAuthProblem("invalid_request", "code_challenge_method must be S256.");
  if (!/^[\w-]{43}$/.test(challenge))
    throw new OAuthProblem("invalid_request", "code_challenge must be a SHA-256 in base64url, 43 characters.");
  requireResource(config, asked.get("resource"));
  const prompts = asked.get("prompt")?.split(" ") ?? [];
  const silent = prompts.includes("none");
  if (silent && prompts.length > 1)
    throw new OAuthProblem("invalid_request", "prompt=none excludes every other prompt.");
  return { ...addressee, challenge, scopes: requestedScopes(offered, asked.get("scope")), silent };
}

/**
 * Throws invalid_target for another resource (RFC 8707, section 2). The origin and the address of the MCP server are
 * one audience; a trailing slash is ignored.
 */
export function requireResource(config: Config, resource: string | null): void {
  const address = mcpAddress(config);
  if (resource !== null && ![address, config.mcp.resource_uri].includes(resource.replace(/\/$/, "")))
    throw new OAuthProblem("invalid_target", `The only resource is ${address}.`);
}

/** The address with an error for the client, with `iss` (RFC 9207). */
export const refusalAt = (config: Config, { redirectUri, state }: Omit<Addressee, "client">, problem: OAuthProblem) =>
  answerAt(redirectUri, {
    error: problem.code,
    error_description: problem.message,
    state,
    iss: issuerOf(config),
  });
