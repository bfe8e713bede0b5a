export {
  askedLater,
  endedSessionCookie,
  laterCookie,
  ownCookie,
  returnCookie,
  sessionCookieName,
  signInCookie,
} from "./cookies.ts";
export { deviceCookie } from "./device-cookie.ts";
