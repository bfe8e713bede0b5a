import type { CallToolResult } from "@modelcontextprotocol/sdk/types.js";
import type { AppError, ErrorCode } from "@statusmesh/shared/errors";
import { requiredInput, type SchemaNode } from "@statusmesh/shared/schema/schema-node";
import { asAppError } from "../../platform/http/exchange.ts";
import type { Tool } from "../../platform/http/tool.ts";

/** Body of a failed call. */
export interface Failure {
  readonly code: string;
  readonly message: string;
  /** Why an action is `not_confirmed`. */
  readonly reason?: string;
  /** Advice for the client. */
  readonly hint: string;
}

const notFound = (code: string, thing: string, tool: string) => ({
  code,
  message: `There is no ${thing} with this id.`,
  hint: `Take the id from a result of ${tool}.`,
});

/** Maps error codes of services to failures. Absent and foreign ids get the same failure. */
const known: Partial<Record<ErrorCode, Failure>> = {
  TARGET_NOT_FOUND: notFound("monitor_not_found", "monitor", "list_monitors"),
  INCIDENT_NOT_FOUND: notFound("incident_not_found", "incident", "list_incidents"),
  STATUS_PAGE_NOT_FOUND: notFound("status_page_not_found", "status page", "list_status_pages"),
};

/** Argument errors that are about the message as a text have other codes than INVALID_BODY. */
const isAboutArguments = ({ status }: AppError): boolean => status === 400;

/** `id (required), message`. */
function argumentsOf(input: SchemaNode): string {
  const required = requiredInput(input);
  const names = Object.keys(input.properties ?? {}).map((name) =>
    required.includes(name) ? `${name} (required)` : name,
  );
  return names.length === 0 ? "no arguments" : names.join(", ");
}

/** The failure of a call that threw. */
export function failureOf(thrown: unknown, { name, input }: Pick<Tool, "name" | "input">): Failure {
  const error = asAppError(thrown);
  const failure = known[error.code];
  if (failure !== undefined) return failure;
  if (isAboutArguments(error))
    return {
      code: "invalid_arguments",
      message: error.message,
      hint: `${name} takes ${argumentsOf(input as SchemaNode)}.`,
    };
  if (error.code === "PROBE_UNAVAILABLE" || error.code === "PROBE_BUSY")
    return {
      code: "probe_unavailable",
      message: error.message,
      hint: "Nothing was checked. Try again in a minute, or read the last result with get_monitor.",
    };
  return {
    code: "internal",
    message: "The server could not complete the call.",
    hint: "Read the state again before you repeat a write. If it persists, tell the operator of StatusMesh.",
  };
}

/** Why an action is not confirmed, with advice. Nothing was changed in any case. */
const noConfirmations = {
  declined: ["The user declined the action.", "Do not repeat the call unless the user asks for it again."],
  dismissed: ["The user closed the question without an answer.", "Ask the user how to proceed."],
  timed_out: ["Nobody answered the question within 120 seconds.", "Repeat the call when the user is there to answer."],
  cannot_ask: [
    "This client cannot show the question: a person confirms each action in an elicitation form.",
    "Do not repeat the call. Tell the user to do it in the console, or in a client that supports elicitation forms.",
  ],
  too_many: [
    "Eight actions of this session wait for an answer.",
    "Wait until the user has answered them, then repeat the call.",
  ],
  call_ended: ["The call or its session ended before the user answered.", "Ask the user before you repeat the call."],
  access_ended: [
    "The access of this client ended before the action was confirmed.",
    "Tell the user to connect the client again.",
  ],
} as const;
export type NoConfirmation = keyof typeof noConfirmations;

export function notConfirmed(reason: NoConfirmation): Failure {
  const [message, hint] = noConfirmations[reason];
  return { code: "not_confirmed", reason, message: `${message} Nothing was changed.`, hint };
}

export const failed = (failure: Failure): CallToolResult => ({
  isError: true,
  content: [{ type: "text", text: JSON.stringify(failure) }],
});
