import { OAuthProblem } from "./problem.ts";

/** Parameters of a request by name. One without a value counts as omitted (RFC 6749, section 3.1). */
export class Parameters {
  readonly #all: URLSearchParams;

  constructor(all: URLSearchParams) {
    this.#all = all;
  }

  get(name: string): string | null {
    return this.#all.get(name) || null;
  }

  /** The parameter; throws invalid_request without it. */
  need(name: string): string {
    const value = this.get(name);
    if (value === null) throw new OAuthProblem("invalid_request", `The parameter ${name} is missing.`);
    return value;
  }

  isRepeated(name: string): boolean {
    return this.#all.getAll(name).length > 1;
  }

  /** Throws invalid_request for a parameter that is sent more than once (RFC 6749, section 3.1). */
  refuseRepeated(): void {
    for (const name of new Set(this.#all.keys()))
      if (this.isRepeated(name))
        throw new OAuthProblem(
          "invalid_request",
          `The parameter ${name.replaceAll(/[^\w.-]/g, "?").slice(0, 60)} is sent more than once.`,
        );
  }
}
