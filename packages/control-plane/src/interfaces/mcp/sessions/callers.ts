import { findResourceToken } from "../../../access/auth/tokens/service.ts";
import type { Ctx, System } from "../../../platform/context.ts";
import type { SessionOwner } from "./queries.ts";
import type { LiveSession } from "./sessions.ts";

/** Request data of a caller, for logs. */
export interface Origin {
  readonly traceId: string | null;
  readonly ip: string | null;
  readonly userAgent: string | null;
}

/** An authenticated MCP client. */
export interface Caller {
  readonly ctx: Ctx;
  readonly owner: SessionOwner;
  readonly tokenId: string;
  /** Name of the connected app, or of the token that a person created. */
  readonly app: string;
  /** The session that the request names; null without a live one of this caller. */
  readonly session: LiveSession | null;
  /** Reads token, membership and scopes again; null when the access has ended. */
  again(): Promise<Caller | null>;
}

/** Credential of a request: the bearer token, and the session that it names. */
interface Credential {
  readonly token: string;
  readonly sessionId: string | null;
}

/** The caller of a bearer token: live, bound to an organisation, of a member, and made for this resource. */
export async function callerOf(system: System, credential: Credential, origin: Origin): Promise<Caller | null> {
  const { token, sessionId } = credential;
  const found = await findResourceToken(system, token, system.config.mcp.resource_uri, sessionId);
  if (found === null) return null;
  const { tokenId, name, userId, orgId, role, scopes, clientId, session } = found;
  return {
    ctx: {
      ...system,
      orgId,
      userId,
      role,
      scopes,
      actor: { type: "mcp", id: tokenId },
      writeSource: "api",
      traceId: origin.traceId,
      trail: { action: "MCP", ip: origin.ip, userAgent: origin.userAgent, recorded: false },
    },
    owner: { userId, orgId, client: clientId ?? tokenId },
    tokenId,
    app: name,
    session,
    again: async () => await callerOf(system, credential, origin),
  };
}
