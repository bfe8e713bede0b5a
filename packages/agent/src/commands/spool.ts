import type { Command } from "commander";
import { messageOf } from "@statusmesh/shared/thrown";
import { bytes, exits, fail, iso } from "../shell/output.ts";
import * as options from "../shell/options.ts";
import { paint, screenOf, table } from "@statusmesh/shared/shell/terminal";
import { inspect, type SpoolReport } from "../spool/inspect.ts";
import { folderHolder } from "../spool/lock.ts";

export function define(command: Command): void {
  command
    .description(
      "Show the results waiting in a spool folder. Read-only, also beside a running agent. Exit code: 1 when " +
        "something is damaged.",
    )
    .addOption(options.spoolDir("spool folder").makeOptionMandatory())
    .option("--verify", "also decode every waiting result, as reporting would; checksums are always verified")
    .option("--json", "print one JSON object")
    .action(async ({ spoolDir, verify, json }: { spoolDir: string; verify?: true; json?: true }, self: Command) => {
      const holder = folderHolder(spoolDir, Date.now());
      let report: SpoolReport;
      try {
        report = await inspect(spoolDir, { every: verify === true, live: holder !== null });
      } catch (error) {
        return fail(self, exits.config, `the spool folder ${spoolDir} cannot be read (${messageOf(error)}).`);
      }
      process.stdout.write(json === true ? `${JSON.stringify(inJson(report, holder))}\n` : inWords(report, holder));
      process.exitCode = report.damage.length > 0 ? exits.down : exits.up;
    });
}

function inJson(report: SpoolReport, used_by: { pid: number; host: string } | null): object {
  return { ...report, oldest: iso(report.oldest), newest: iso(report.newest), used_by };
}

function inWords(report: SpoolReport, holder: { pid: number; host: string } | null): string {
  const regions = [...new Set(report.segments.map(({ region }) => region))];
  const rows: [string, string][] = [
    ["used by", holder === null ? "no agent" : `pid ${holder.pid}`],
    ["waiting", `${report.waiting} results`],
    ["oldest", iso(report.oldest) ?? "none"],
    ["newest", iso(report.newest) ?? "none"],
    ["on disk", `${bytes(report.bytes)} in ${report.segments.length} segments`],
    ["region", regions.join(", ") || "none"],
    ["dropped", `${report.dropped} ever`],
    ["damaged", report.damage.length === 0 ? "nothing" : String(report.damage.length)],
  ];
  if (report.set_aside.length > 0) rows.push(["set aside", report.set_aside.join(", ")]);
  const screen = screenOf(process.stdout, process.env);
  const segments = report.segments.map(
    ({ file, bytes: size, waiting, region }) =>
      `  ${file}  ${bytes(size).padStart(8)}  ${String(waiting).padStart(7)} waiting  ${region}\n`,
  );
  const damage = report.damage.map(({ file, what }) => `${paint(`! ${file}: ${what}`, "bad", screen)}\n`);
  return table(rows) + segments.join("") + damage.join("");
}
