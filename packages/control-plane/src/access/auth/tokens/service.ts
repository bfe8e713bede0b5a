export { findToken } from "./credentials.ts";
export { deleteAccessTokensBefore } from "./resource-token-queries.ts";
export {
  accessTokenOf,
  findResourceToken,
  liveResourceTokens,
  makeAccessToken,
  revokeAccessToken,
  revokeAccessTokens,
} from "./resource-tokens.ts";
export { createToken, listTokens, revokeToken } from "./tokens.ts";
