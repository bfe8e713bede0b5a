export {
  checkDomain,
  domainRules,
  isHostOf,
  publishedNames,
  recheckDomains,
  type PublishedNames,
  verifiedDomains,
} from "./domains.ts";
