import type { AutoKumaConfig } from "@statusmesh/shared/foreign/autokuma";
import { checkKinds } from "@statusmesh/shared/checks";
import { messageOf } from "@statusmesh/shared/thrown";
import { AutoKuma } from "./autokuma.ts";
import { Findings, type Found, kibOf, maxObjectBytes, sizeLimit } from "./found.ts";
import { readGatusSidecar } from "./gatus-sidecar.ts";
import { readHomepage } from "./homepage.ts";
import { ownKeys, readOwnLabels } from "./own-labels.ts";

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
  const prefix = isKubernetes ? "statusmesh.dev/" : "statusmesh.";
  const read = (found: Found): void => {
    const isRead =
      readOwnLabels(found, prefix, findings) ||
      (isKubernetes ? readGatusSidecar(found, isAuto, findings) : kuma.read(found)) ||
      readHomepage(found, isKubernetes ? "gethomepage.dev/" : "homepage.", findings);
    if (!isRead && isAuto && found.url !== null && /^https?:/.test(found.url))
      findings.add(found, findings.keyOf(`auto/${found.id}`), {
        name: found.name,
        check: { type: "http", url: found.url },
      });
  };
  const keysOf = (found: Found): string[] => [
    ...ownKeys(found, prefix),
    ...[...kuma.idsOf(found), ...foreignIds(found)].map((id) => findings.keyOf(id)),
  ];
  for (const found of [...all].sort(byAge)) {
    try {
      const bytes = bytesOf(found.labels);
      if (bytes <= maxObjectBytes) read(found);
      else findings.leaveOut(found, `its labels have ${kibOf(bytes)}: ${sizeLimit}`, keysOf(found));
    } catch (error) {
      findings.leaveOut(found, `its labels cannot be read (${messageOf(error)})`, keysOf(found));
    }
  }
  kuma.finish();
  findings.finish();
  return findings;
}

const bytesOf = (labels: Found["labels"]): number =>
  Object.entries(labels).reduce((sum, [name, value]) => sum + Buffer.byteLength(name) + Buffer.byteLength(value), 0);

/** What the keys of an object are made of where it is read by the labels of other products, or without any. */
const foreignIds = ({ id }: Found): string[] => [
  `auto/${id}`,
  `homepage/${id}`,
  `homepage/${id}/ping`,
  `gatus/${id}`,
  ...Object.keys(checkKinds).map((type) => `gatus/${id}/${type}`),
];

const byAge = (a: Found, b: Found): number =>
  a.created < b.created ? -1 : a.created > b.created ? 1 : a.words < b.words ? -1 : 1;
