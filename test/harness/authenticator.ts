import type { CDPSession } from "playwright-core";

/*
 * Passkeys of a test: Chromium's authenticators without a device (Chrome DevTools Protocol, WebAuthn). Send
 * WebAuthn.enable first.
 */

export interface Credential {
  credentialId: string;
  isResidentCredential: boolean;
  rpId?: string;
  privateKey: string;
  userHandle?: string;
  signCount: number;
}

/** A platform authenticator that verifies its user, with these credentials; returns its id. */
export async function authenticatorWith(cdp: CDPSession, credentials: readonly Credential[] = []): Promise<string> {
  const { authenticatorId } = await cdp.send("WebAuthn.addVirtualAuthenticator", {
    options: {
      protocol: "ctap2",
      transport: "internal",
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
    },
  });
  for (const credential of credentials) await cdp.send("WebAuthn.addCredential", { authenticatorId, credential });
  return authenticatorId;
}

/** The credentials that an authenticator has. */
export async function credentialsOf(cdp: CDPSession, authenticatorId: string): Promise<Credential[]> {
  return (await cdp.send("WebAuthn.getCredentials", { authenticatorId })).credentials;
}
