export {
  causeError,
  causeKey,
  causeLine,
  causePattern,
  causeTables,
  errorClass,
  readCause,
  type Cause,
  type CauseLine,
  type SharedCauseRow,
} from "./queries.ts";
export { causeName, causeTitle, commonError, namesOf, shareOf, withRegionName } from "./titles.ts";
