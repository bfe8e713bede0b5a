export { accessRules, isPasswordOf, isPrivate, missingFor, pagesWithPasswords } from "./access.ts";
export { domainOfAddress, mailboxKey } from "./mail-domain.ts";
export { createReaderToken, listReaderTokens, revokeReaderToken, touchReaderToken } from "./reader-tokens.ts";
