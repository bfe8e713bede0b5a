/** What a registry said about a domain. */
export interface Registration {
  /** Unix ms. */
  expiresAt: number;
  /** Who sold it; null where the registry does not say. */
  registrar: string | null;
  /** When the registry said so, Unix ms. */
  lookedUpAt: number;
}

/** A lookup without an expiry date. */
export interface LookupFailure {
  /** For an operator, to be read in a sentence. */
  failure: string;
  /** False when it says nothing about the domain: this agent held the question back, or had trouble of its own. */
  evidence: boolean;
  /** True when this agent held the question back. */
  heldBack?: boolean;
}

export interface Found {
  registration: Registration;
  /** What the registry lists as its state and a person should know, for example `redemption period`. */
  concerns: readonly string[];
}

export type Answer = Found | LookupFailure;
