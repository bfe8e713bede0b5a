import * as fs from "node:fs";
import { join } from "node:path";
import { parseDocument } from "yaml";
import { codeOrMessage, messageOf } from "@statusmesh/shared/thrown";
import { Failure } from "../../shell/output.ts";
import { isRow, type Row } from "@statusmesh/shared/foreign/values";

const maxBytes = 4 * 1_048_576;
const maxFiles = 1000;

/** A file of another product: YAML with anchors and merge keys, of one document. Throws Failure. */
export function readYaml(path: string): Row {
  const text = readText(path);
  try {
    const document = parseDocument(text, { merge: true, logLevel: "error" });
    const [error] = document.errors;
    if (error !== undefined) throw error;
    const value: unknown = document.toJS({ maxAliasCount: 1000 }) ?? {};
    if (!isRow(value) && !Array.isArray(value)) throw new Error("it is no map");
    return value as Row;
  } catch (error) {
    throw new Failure(`${path} cannot be read: ${messageOf(error).split("\n")[0]!.slice(0, 300)}`);
  }
}

/** The text of a file of at most 4 MiB. Throws Failure. */
export function readText(path: string): string {
  try {
    const stat = fs.statSync(path);
    if (!stat.isFile()) throw new Error("it is no file");
    if (stat.size > maxBytes) throw new Error("it has more than 4 MiB");
    return new TextDecoder("utf-8", { fatal: true }).decode(fs.readFileSync(path));
  } catch (error) {
    throw new Failure(`${path} cannot be read (${codeOrMessage(error)}).`);
  }
}

/** A file, or the YAML files below a folder in the order of their names. */
export function yamlFiles(path: string): string[] {
  const found: string[] = [];
  const visit = (at: string, depth: number): void => {
    const stat = fs.statSync(at, { throwIfNoEntry: false });
    if (stat === undefined) throw new Failure(`${at} cannot be read (ENOENT).`);
    if (!stat.isDirectory()) found.push(at);
    else if (depth > 16) throw new Failure(`${at}: more than 16 folders are nested here.`);
    else
      for (const name of fs.readdirSync(at).sort())
        if (!name.startsWith(".") && (/\.ya?ml$/.test(name) || fs.statSync(join(at, name)).isDirectory()))
          visit(join(at, name), depth + 1);
    if (found.length > maxFiles) throw new Failure(`${path} has more than ${maxFiles} files.`);
  };
  visit(path, 0);
  if (found.length === 0) throw new Failure(`${path} has no YAML file.`);
  return found;
}
