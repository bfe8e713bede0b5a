/** Error codes of RFC 6749 (sections 4.1.2.1 and 5.2), RFC 7591 (section 3.2.2), RFC 8707 (section 2). */
export type OAuthErrorCode =
  | "access_denied"
  | "consent_required"
  | "invalid_client"
  | "invalid_client_metadata"
  | "invalid_grant"
  | "invalid_redirect_uri"
  | "invalid_request"
  | "invalid_scope"
  | "invalid_target"
  | "login_required"
  | "unsupported_grant_type"
  | "unsupported_response_type";

/** A refusal for a client. The message is its `error_description`: ASCII, without quotes and backslashes. */
export class OAuthProblem extends Error {
  override readonly name = "OAuthProblem";
  readonly code: OAuthErrorCode;
  readonly status: number;

  constructor(code: OAuthErrorCode, message: string, status = code === "invalid_client" ? 401 : 400) {
    super(message);
    this.code = code;
    this.status = status;
  }
}

/** A refusal for a person: the client, or the form, cannot be answered. */
export class ConsentProblem extends Error {
  override readonly name = "ConsentProblem";
  readonly status: 400 | 403;
  readonly title: string;

  constructor(status: 400 | 403, title: string, message: string) {
    super(message);
    this.status = status;
    this.title = title;
  }
}
