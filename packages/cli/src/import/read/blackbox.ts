import * as fs from "node:fs";
import { dirname, join, resolve } from "node:path";
import { Failure } from "../../shell/output.ts";
import type { BlackboxData, ProbeTarget } from "../blackbox.ts";
import { type Row, row, rows, text, texts } from "@statusmesh/shared/foreign/values";
import { readYaml } from "./foreign-yaml.ts";

const maxTargets = 20_000;

/** Modules of blackbox_exporter, and the targets that a Prometheus configuration gives to them. Throws Failure. */
export function readBlackbox(modulesPath: string, prometheusPath: string): BlackboxData {
  const modules = row(readYaml(modulesPath)["modules"]);
  if (Object.keys(modules).length === 0)
    throw new Failure(`${modulesPath} has no modules: it is not of blackbox_exporter.`);
  const prometheus = readYaml(prometheusPath);
  const usual = text(row(prometheus["global"])["scrape_interval"]) || "1m";
  const targets: ProbeTarget[] = [];
  const otherJobs: { name: string; reason: string }[] = [];
  for (const job of rows(prometheus["scrape_configs"])) {
    const name = text(job["job_name"]);
    const module = moduleOf(job);
    if (module === null) continue;
    if (text(job["metrics_path"]) !== "/probe") {
      otherJobs.push({
        name,
        reason: "another exporter probes its targets, such as snmp_exporter: its path is not /probe",
      });
      continue;
    }
    // A path of Prometheus' own machine or container.
    const unread: string[] = [];
    const discovery = Object.keys(job).filter((key) => key.endsWith("_sd_configs") && key !== "file_sd_configs");
    if (discovery.length > 0)
      otherJobs.push({ name, reason: `its targets come from ${discovery.join(", ")}, which are not read` });
    const groups = [
      ...rows(job["static_configs"]),
      ...rows(job["file_sd_configs"]).flatMap((one) =>
        texts(one["files"]).flatMap((file) => {
          try {
            return groupsIn(file, prometheusPath);
          } catch (error) {
            if (!(error instanceof Failure)) throw error;
            unread.push(file);
            return [];
          }
        }),
      ),
    ];
    if (unread.length > 0)
      otherJobs.push({ name, reason: `files of its targets cannot be read here: ${unread.join(", ").slice(0, 200)}` });
    const notes = notesOf(job);
    for (const group of groups)
      for (const target of texts(group["targets"]))
        targets.push({
          job: name,
          module,
          target,
          labels: row(group["labels"]),
          interval: text(job["scrape_interval"]) || usual,
          notes,
        });
    if (targets.length > maxTargets) throw new Failure(`${prometheusPath} has more than ${maxTargets} targets.`);
  }
  return { modules, targets, otherJobs };
}

/** The module of a job that probes; null for other jobs. */
function moduleOf(job: Row): string | null {
  const [module] = texts(row(job["params"])["module"]);
  if (module !== undefined) return module;
  return text(job["metrics_path"]) === "/probe" ? "http_2xx" : null;
}

/** The three usual rules lead the target to the exporter; others change it in ways that are not followed. */
function notesOf(job: Row): string[] {
  const usual = new Set(["__param_target", "__address__", "instance"]);
  const others = rows(job["relabel_configs"]).filter(
    (rule) => !usual.has(text(rule["target_label"])) || rule["regex"] !== undefined,
  );
  return others.length === 0 ? [] : ["its job has relabel rules that are not followed: look at its address and tags"];
}

/** Groups of targets in the files of a pattern, relative to the Prometheus configuration. */
function groupsIn(pattern: string, configPath: string): Row[] {
  const path = resolve(dirname(configPath), pattern);
  const [folder, name] = [dirname(path), path.slice(dirname(path).length + 1)];
  const paths = name.includes("*")
    ? namesIn(folder)
        .filter((one) => matches(one, name))
        .map((one) => join(folder, one))
    : [path];
  return paths.flatMap((one) => {
    const value: unknown = readYaml(one);
    return rows(value);
  });
}

function namesIn(folder: string): string[] {
  try {
    return fs.readdirSync(folder).sort();
  } catch {
    throw new Failure(`${folder} cannot be read: the files of targets are there.`);
  }
}

/** A name with one `*`, as file_sd_configs has it. */
function matches(name: string, pattern: string): boolean {
  const [start = "", end = ""] = pattern.split("*");
  return name.startsWith(start) && name.endsWith(end) && name.length >= start.length + end.length;
}
