import type { AutoKumaConfig } from "@statusmesh/shared/foreign/autokuma";
import { AutoKuma } from "./autokuma.ts";
import { Findings, type Found } from "./found.ts";
import { readGatusSidecar } from "./gatus-sidecar.ts";
import { readHomepage } from "./homepage.ts";
import { readOwnLabels } from "./own-labels.ts";

/** What decides how labels are read. */
export interface Dialects {
  readonly isKubernetes: boolean;
  /** One http monitor for each exposed host without annotations. */
  readonly isAuto: boolean;
  readonly autoKuma: AutoKumaConfig;
}

/**
 * The monitors that objects declare. An object is read by the first dialect of which it has labels: our own, AutoKuma
 * or the Gatus sidecar, Homepage. The oldest object comes first: a newer one does not take its key.
 */
export function declare(all: readonly Found[], { isKubernetes, isAuto, autoKuma }: Dialects): Findings {
  const findings = new Findings();
  const kuma = new AutoKuma(autoKuma, findings);
  for (const found of [...all].sort(byAge)) {
    const isRead =
      readOwnLabels(found, isKubernetes ? "statusmesh.dev/" : "statusmesh.", findings) ||
      (isKubernetes ? readGatusSidecar(found, isAuto, findings) : kuma.read(found)) ||
      readHomepage(found, isKubernetes ? "gethomepage.dev/" : "homepage.", findings);
    if (!isRead && isAuto && found.url !== null && /^https?:/.test(found.url))
      findings.add(found, findings.keyOf(`auto/${found.id}`), {
        name: found.name,
        check: { type: "http", url: found.url },
      });
  }
  kuma.finish();
  return findings;
}

const byAge = (a: Found, b: Found): number =>
  a.created < b.created ? -1 : a.created > b.created ? 1 : a.words < b.words ? -1 : 1;
