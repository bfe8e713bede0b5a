import { protocolVersion } from "@statusmesh/shared/protocol/agent-protocol";
import { AppError } from "@statusmesh/shared/errors";

/** Refuses an agent of another protocol version: AGENT_PROTOCOL_MISMATCH, after which the agent keeps its results. */
export function requireProtocol(theirs: number): void {
  if (theirs === protocolVersion) return;
  const older = theirs < protocolVersion ? "agent" : "control plane";
  throw new AppError(
    "AGENT_PROTOCOL_MISMATCH",
    `This control plane speaks version ${protocolVersion} of the agent protocol, the agent speaks ` +
      `${theirs}. Update the ${older}, which is the older of the two.`,
    { details: { control_plane: protocolVersion, agent: theirs } },
  );
}

/** The same for a body that does not match the schema: another protocol version may have other fields. */
export function protocolOfInvalidBody(body: unknown): void {
  const theirs = typeof body === "object" && body !== null && "protocol" in body ? body.protocol : null;
  if (typeof theirs === "number" && Number.isInteger(theirs)) requireProtocol(theirs);
}
