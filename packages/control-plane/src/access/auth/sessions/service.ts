export { bearerOf, browserSession, callerOf, signedInAs, type BrowserSession } from "./authenticate.ts";
export { type OpenedSession } from "./opened-session.ts";
export { idleSince } from "./session-queries.ts";
export { endAccess, endSession, listSessions, makeSignInLink, moveSession, signIn } from "./sessions.ts";
export { askingForCode, openedBy, pendingOf, signedInCookies } from "./sign-in.ts";
