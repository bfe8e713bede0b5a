import { readFileSync } from "node:fs";
import { isCertificate, pemsIn, trustAlso } from "@statusmesh/shared/net/tls";
import { codeOrMessage } from "@statusmesh/shared/thrown";

/** A file of authorities that cannot be used. The message is for operators. */
export class AuthoritiesError extends Error {
  override readonly name = "AuthoritiesError";
}

/**
 * Trusts the certificates of a PEM file in every later check, in addition to those of Node and of NODE_EXTRA_CA_CERTS.
 * Returns how many. Throws {@link AuthoritiesError}.
 */
export function trustAuthorities(file: string, env: Readonly<Record<string, string | undefined>>): number {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    throw new AuthoritiesError(`the file of authorities ${file} cannot be read (${codeOrMessage(error)}).`);
  }
  const pems = pemsIn(text);
  if (pems.length === 0)
    throw new AuthoritiesError(`${file} has no certificate: it must have "-----BEGIN CERTIFICATE-----" (PEM).`);
  const damaged = pems.findIndex((pem) => !isCertificate(pem));
  if (damaged >= 0) throw new AuthoritiesError(`certificate ${damaged + 1} of ${file} is damaged.`);
  trustAlso([...extraOfNode(env), ...pems]);
  return pems.length;
}

/** Node adds these to its own list only where no other one is given. It has warned of a file that it cannot read. */
function extraOfNode({ NODE_EXTRA_CA_CERTS: file = "" }: Readonly<Record<string, string | undefined>>): string[] {
  try {
    return file === "" ? [] : pemsIn(readFileSync(file, "utf8"));
  } catch {
    return [];
  }
}
