export {
  accountOf,
  hasAccount,
  linkTo,
  listIdentities,
  personWith,
  type Attested,
  unlinkIdentity,
} from "./identities.ts";
export { requestMagicLink } from "./magic-link.ts";
