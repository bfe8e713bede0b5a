/** A registry's data on a domain. */
export interface Registration {
  /** Unix ms. */
  expiresAt: number;
  /** Registrar; null when the registry names none. */
  registrar: string | null;
  /** Time of the answer, Unix ms. */
  lookedUpAt: number;
}

/** A lookup without an expiry date. */
export interface LookupFailure {
  /** For operators, as part of a sentence. */
  failure: string;
  /** False when it is no evidence: this agent held the lookup back, or had a problem of its own. */
  evidence: boolean;
  /** True when this agent held the lookup back. */
  heldBack?: boolean;
}

export interface Found {
  registration: Registration;
  /** A noteworthy state from the registry, for example `redemption period`. */
  concerns: readonly string[];
}

export type Answer = Found | LookupFailure;
