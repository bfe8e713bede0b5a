import { AppError, type ErrorCode } from "../errors.ts";

/** A fault of a request as `details.errors` of the reply lists it. */
export interface Fault {
  /** RFC 6901 pointer into the body; null for the request as a whole. */
  readonly field: string | null;
  readonly code: ErrorCode;
  readonly message: string;
}

/** Faults in one reply, and the characters of all after the first: pointers of a hostile body have a megabyte each. */
const usualLimits = { most: 20, text: 8_192 };

/** Collects the faults of a request, one per field, within its limits. */
export class Faults {
  readonly #limits: typeof usualLimits;
  readonly #list: Fault[] = [];
  #first: AppError | null = null;
  #text = 0;
  #isFull = false;

  constructor(limits = usualLimits) {
    this.#limits = limits;
  }

  get list(): readonly Fault[] {
    return this.#list;
  }

  get isEmpty(): boolean {
    return this.#list.length === 0;
  }

  /** True when further faults would be dropped: the search for them can stop. */
  get isFull(): boolean {
    return this.#isFull;
  }

  has(field: string): boolean {
    return this.#list.some((fault) => fault.field === field);
  }

  /** Adds the faults of an error; a field keeps its first one. */
  add(error: AppError): void {
    for (const fault of faultsOf(error)) {
      if (this.#isFull) return;
      if (fault.field !== null && this.has(fault.field)) continue;
      if (this.#first === null) this.#first = error;
      else this.#text += (fault.field?.length ?? 0) + fault.message.length;
      if (this.#text > this.#limits.text) {
        this.#isFull = true;
        return;
      }
      this.#list.push(fault);
      this.#isFull = this.#list.length === this.#limits.most;
    }
  }

  /** Runs a rule and adds the AppError that it throws; undefined then. */
  check<T>(rule: () => T): T | undefined {
    try {
      return rule();
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      this.add(error);
      return undefined;
    }
  }

  /**
   * Throws the first fault, if any. With several of them `details.errors` has all, the first included.
   */
  throwAny(): void {
    const first = this.#first;
    if (first === null) return;
    if (this.#list.length === 1) throw first;
    const { code, message, field, details } = first;
    throw new AppError(code, message, { field, details: { ...details, errors: this.#list }, cause: first });
  }
}

/** A rule for {@link checkAll}: refuses `field` with `code` unless it holds. */
export const rule = (holds: boolean, code: ErrorCode, message: string, field: string) => (): void => {
  if (!holds) throw new AppError(code, message, { field });
};

/** Runs every rule; throws the first fault with all others, as {@link Faults.throwAny} does. */
export function checkAll(...rules: readonly (() => unknown)[]): void {
  const faults = new Faults();
  for (const each of rules) faults.check(each);
  faults.throwAny();
}

/** The faults that an error stands for, the first one first. */
function faultsOf({ code, message, field, details }: AppError): readonly Fault[] {
  return (details?.["errors"] as readonly Fault[] | undefined) ?? [{ field, code, message }];
}

/** Runs `rules`; the fields of what they throw start at `base`. */
export function below<T>(base: string, rules: () => T): T {
  try {
    return rules();
  } catch (error) {
    if (base === "" || !(error instanceof AppError) || error.field === null) throw error;
    const { code, message, field, details } = error;
    const errors = details?.["errors"] as readonly Fault[] | undefined;
    const moved = errors?.map((fault) => ({ ...fault, field: fault.field === null ? null : base + fault.field }));
    throw new AppError(code, message, {
      field: base + field,
      details: moved === undefined ? details : { ...details, errors: moved },
      cause: error,
    });
  }
}
