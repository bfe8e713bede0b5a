import * as fs from "node:fs";
import { resolve } from "node:path";
import { Document, isScalar, visit } from "yaml";
import { maxFileBytes } from "@statusmesh/shared/declared/yaml";
import { codeOrMessage } from "@statusmesh/shared/thrown";
import { Failure, print, tell } from "../shell/output.ts";
import type { Imported } from "./draft.ts";
import { projectOf, reportMarkdown, summaryOf } from "./report.ts";

/** Where `smctl import` writes: new files. Without `output` the configuration goes to standard output. */
export interface Outputs {
  output?: string;
  envFile?: string;
  report?: string;
  history?: string;
}

/** Throws Failure for a file that exists, or is named twice: before anything is read for minutes. */
export function refuseExisting({ output, envFile, report, history }: Outputs): void {
  const paths = [output, envFile, report, history].filter((path) => path !== undefined);
  for (const path of paths) {
    if (fs.existsSync(path) && !(path.endsWith("/") && fs.readdirSync(path).length === 0))
      throw new Failure(`${path} exists already, and is not overwritten.`);
    if (paths.filter((other) => resolve(other) === resolve(path)).length > 1)
      throw new Failure(`${path} is named twice.`);
  }
}

/** Writes what was imported, and what people must know of it. Throws Failure for what cannot be written. */
export function writeImported({ document, env, history, report }: Imported, options: Outputs): void {
  const { output, envFile, report: reportPath, history: historyPath } = options;
  const files = output === undefined ? [] : filesOf(document, output);
  if (envFile !== undefined) writeNew(envFile, envText(env), 0o600);
  // Addresses of subscribers are personal.
  if (historyPath !== undefined && history !== null)
    writeNew(historyPath, `${JSON.stringify(history)}\n`, history.subscribers === undefined ? 0o666 : 0o600);
  if (reportPath !== undefined)
    writeNew(reportPath, /\.json$/i.test(reportPath) ? `${JSON.stringify(report, null, 2)}\n` : reportMarkdown(report));
  if (output?.endsWith("/") === true) fs.mkdirSync(output, { recursive: true });
  for (const [path, text] of files) writeNew(path, text);
  if (output === undefined) print(yaml(document));
  tell(summaryOf(report));
  if (reportPath === undefined) for (const line of [...urgent(report), projectOf(report)]) tell(line);
  if (env.size > 0 && envFile === undefined)
    tell(`smctl: set these variables, or use --env-file: ${[...env.keys()].join(", ")}`);
  if (historyPath !== undefined && history === null) tell("smctl: there is no history to write.");
}

const urgent = ({ not_carried_over, carried_over_differently }: Imported["report"]): string[] =>
  [...not_carried_over, ...carried_over_differently]
    .filter(({ weight }) => weight === "silent")
    .map(({ reason, items }) => `- ${reason} (${items.length})`);

/** Lists of numbers stand on one line. */
function yaml(value: object): string {
  const document = new Document(value, { aliasDuplicateObjects: false });
  visit(document, {
    Seq(_, node) {
      node.flow = node.items.length > 0 && node.items.every((one) => isScalar(one) && typeof one.value === "number");
    },
  });
  return document.toString({ lineWidth: 0 });
}

/** The configuration as one file, or as several in a folder where one would be larger than smctl reads. */
function filesOf(document: Imported["document"], output: string): [path: string, text: string][] {
  const text = yaml(document);
  const isLarge = Buffer.byteLength(text) > maxFileBytes;
  if (!output.endsWith("/")) {
    if (isLarge)
      throw new Failure(
        `the configuration is larger than 1 MiB, the most of one file. Name a folder: --output ${output}/`,
      );
    return [[output, text]];
  }
  const { version, project, ...sections } = document;
  return Object.entries(sections).flatMap(([section, objects]): [string, string][] => {
    const parts: Record<string, unknown>[] = [{}];
    let bytes = 0;
    for (const [key, object] of Object.entries(objects as object)) {
      const size = Buffer.byteLength(JSON.stringify(object)) * 2 + 400;
      if (bytes + size > maxFileBytes * 0.9) {
        parts.push({});
        bytes = 0;
      }
      parts.at(-1)![key] = object;
      bytes += size;
    }
    return parts.map((part, at) => [
      `${output}${section}${parts.length === 1 ? "" : `-${at + 1}`}.yaml`,
      yaml({ version, project, [section]: part }),
    ]);
  });
}

/** `NAME='value'` lines that a shell reads. */
const envText = (env: ReadonlyMap<string, string>): string =>
  [...env].map(([name, value]) => `${name}='${value.replaceAll("'", "'\\''")}'\n`).join("");

function writeNew(path: string, text: string, mode = 0o666): void {
  try {
    fs.writeFileSync(path, text, { flag: "wx", mode });
  } catch (error) {
    throw new Failure(`${path} cannot be written (${codeOrMessage(error)}).`);
  }
}
