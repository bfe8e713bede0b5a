import type { DiagnosisKind, Provider } from "@statusmesh/shared/protocol/diagnosis";

/** What an answer of a product has that no answer of an origin has. All parts must hold; texts are in lower case. */
export interface Trait {
  readonly kind: DiagnosisKind;
  readonly provider: Provider;
  /** What `diagnosisOf` of the shared package knows for the kind. */
  readonly detail?: string;
  readonly status?: readonly number[];
  /** Headers, and a part of their value (empty: any value). */
  readonly headers?: Readonly<Record<string, string>>;
  /** The beginning of a cookie that is set. */
  readonly cookie?: string;
  /** Parts of the first KiB of the body, all of which are there. */
  readonly body?: readonly string[];
  /** Where the product's maker or its users describe it. */
  readonly source: string;
}
