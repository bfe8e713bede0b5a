export { logoFile, logoPath, logoUrl, removeLogo, setLogo } from "./logos.ts";
export { type LogoFileRow } from "./queries.ts";
