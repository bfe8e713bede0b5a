import type { FieldForm } from "../schema/form.ts";

/** Protocols with a command that begins TLS, and their display names. */
export const startTlsProtocols = {
  smtp: "SMTP",
  imap: "IMAP",
  pop3: "POP3",
  ftp: "FTP",
  ldap: "LDAP",
  postgres: "PostgreSQL",
  mysql: "MySQL",
  xmpp: "XMPP",
  sieve: "ManageSieve",
} as const;
export type StartTlsProtocol = keyof typeof startTlsProtocols;

/** Names of the protocols, in display order. */
export const startTlsNames = Object.keys(startTlsProtocols) as StartTlsProtocol[];

/** Choices of a form: the value that `valueOf` gives to each protocol. */
export const startTlsOptions = (valueOf: (name: StartTlsProtocol) => string): NonNullable<FieldForm["options"]> =>
  Object.fromEntries(startTlsNames.map((name) => [valueOf(name), `STARTTLS (${startTlsProtocols[name]})`]));
