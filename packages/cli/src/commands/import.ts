import { type Command, InvalidArgumentError, Option } from "commander";
import type { Imported } from "../import/draft.ts";
import { progressLines } from "../shell/output.ts";
import type { Outputs } from "../import/write.ts";

interface Options extends Outputs {
  project: string;
  apiUrl?: string;
  insecureHttp?: boolean;
  stopped?: boolean;
  prometheus?: string;
  config?: string;
  page?: string;
}

interface Source {
  readonly name: string;
  readonly summary: string;
  readonly description: string;
  /** Its arguments, as commander writes them. */
  readonly argument?: readonly [syntax: string, description: string];
  /** Default of --api-url; none for a source that is a file. */
  readonly apiUrl?: string;
  readonly options?: readonly Option[];
  /** Description of --history, where the source has what it writes. */
  readonly history?: string;
  load(input: string, options: Options): Promise<Imported>;
}

const sources: readonly Source[] = [
  {
    name: "kuma",
    summary: "Uptime Kuma 1.23 and 2.x",
    description:
      "kuma.db with its kuma.db-wal, the JSON backup of 1.x, or the address of a running instance, which needs " +
      "KUMA_USERNAME, KUMA_PASSWORD and, with two factors, KUMA_TOTP.",
    argument: ["<file|url>", "kuma.db, a backup, or https://kuma.example.org"],
    options: [new Option("--stopped", "Kuma was stopped cleanly before the file was copied: there is no kuma.db-wal")],
    history: "write past uptime and outages to a new file, for smctl history",
    async load(input, options) {
      const { importKuma } = await import("../import/kuma.ts");
      const progress = progressLines();
      const wanted = { stopped: options.stopped === true, history: options.history !== undefined };
      if (/^https?:\/\//i.test(input)) {
        const { readRunningKuma } = await import("../import/read/kuma-socket.ts");
        return importKuma(await readRunningKuma(input, { ...options, ...wanted }, progress), options.project);
      }
      const { readKuma } = await import("../import/read/kuma.ts");
      return importKuma(readKuma(input, wanted, progress), options.project);
    },
  },
  {
    name: "autokuma",
    summary: "AutoKuma's files of static monitors",
    description:
      "TOML and JSON files of AutoKuma. Labels of containers are not read: import the Uptime Kuma that has their " +
      "monitors.",
    argument: ["<folder>", "the folder of AUTOKUMA__STATIC_MONITORS"],
    options: [new Option("--config <file>", "AutoKuma's TOML, YAML or JSON configuration, for its default_settings")],
    async load(input, options) {
      const { importKuma } = await import("../import/kuma.ts");
      const { readAutoKuma } = await import("../import/read/autokuma.ts");
      return importKuma(readAutoKuma(input, options.config), options.project, "AutoKuma");
    },
  },
  {
    name: "gatus",
    summary: "Gatus",
    description: "The configuration of Gatus: a file, or a folder. Variables that it uses must be set, as for Gatus.",
    argument: ["<file|folder>", "config.yaml, or the folder of GATUS_CONFIG_PATH"],
    async load(input, options) {
      const { importGatus } = await import("../import/gatus.ts");
      const { readGatus } = await import("../import/read/gatus.ts");
      return importGatus(readGatus(input), options.project);
    },
  },
  {
    name: "healthchecks",
    summary: "healthchecks.io, or an installation of your own",
    description:
      "Checks of a project, with the addresses that their jobs ping. Needs HEALTHCHECKS_API_KEY, a full key.",
    apiUrl: "https://healthchecks.io",
    async load(_input, options) {
      const { importHealthchecks } = await import("../import/healthchecks.ts");
      const { readHealthchecks } = await import("../import/read/hosts.ts");
      return importHealthchecks(await readHealthchecks(hostOf(options)), options.project);
    },
  },
  {
    name: "blackbox",
    summary: "blackbox_exporter with Prometheus",
    description: "Modules of blackbox_exporter, with the targets that a Prometheus configuration gives to them.",
    argument: ["<file>", "blackbox.yml"],
    options: [new Option("--prometheus <file>", "prometheus.yml").makeOptionMandatory()],
    async load(input, options) {
      const { importBlackbox } = await import("../import/blackbox.ts");
      const { readBlackbox } = await import("../import/read/blackbox.ts");
      return importBlackbox(readBlackbox(input, options.prometheus ?? ""), options.project);
    },
  },
  {
    name: "uptimerobot",
    summary: "UptimeRobot",
    description: "Monitors, status pages and maintenance windows. Needs UPTIMEROBOT_API_KEY, a key of the account.",
    apiUrl: "https://api.uptimerobot.com/v3",
    async load(_input, options) {
      const { importUptimeRobot } = await import("../import/uptimerobot.ts");
      const { readUptimeRobot } = await import("../import/read/hosts.ts");
      return importUptimeRobot(await readUptimeRobot(hostOf(options), progressLines()), options.project);
    },
  },
  {
    name: "betterstack",
    summary: "Better Stack",
    description: "Monitors, heartbeats and status pages. Needs BETTERSTACK_API_TOKEN.",
    apiUrl: "https://uptime.betterstack.com",
    async load(_input, options) {
      const { importBetterStack } = await import("../import/betterstack.ts");
      const { readBetterStack } = await import("../import/read/hosts.ts");
      return importBetterStack(await readBetterStack(hostOf(options), progressLines()), options.project);
    },
  },
  {
    name: "pingdom",
    summary: "Pingdom",
    description: "Checks and maintenance windows. Needs PINGDOM_API_TOKEN, which may read only.",
    apiUrl: "https://api.pingdom.com/api/3.1",
    async load(_input, options) {
      const { importPingdom } = await import("../import/pingdom.ts");
      const { readPingdom } = await import("../import/read/hosts.ts");
      return importPingdom(await readPingdom(hostOf(options), progressLines()), options.project);
    },
  },
  {
    name: "statuspage",
    summary: "Statuspage",
    description: "A page with its components. Needs STATUSPAGE_API_KEY.",
    apiUrl: "https://api.statuspage.io/v1",
    options: [new Option("--page <id>", "id of the page").makeOptionMandatory()],
    history: "write confirmed subscribers to a new file that only you can read, for smctl history",
    async load(_input, options) {
      const { importStatuspage } = await import("../import/statuspage.ts");
      const { readStatuspage } = await import("../import/read/hosts.ts");
      const read = await readStatuspage({ ...hostOf(options), page: options.page ?? "" }, progressLines());
      return importStatuspage({ ...read, history: options.history !== undefined }, options.project);
    },
  },
];

const hostOf = ({ apiUrl = "", insecureHttp = false }: Options): { apiUrl: string; insecureHttp: boolean } => ({
  apiUrl,
  insecureHttp,
});

const projectName = (text: string): string => {
  if (/^[a-z0-9-]{1,40}$/.test(text)) return text;
  throw new InvalidArgumentError("It must have 1 to 40 of a-z, 0-9 and hyphens.");
};

export function define(command: Command): void {
  command.description(
    "Write a configuration file, and a report, from the configuration of another product. Nothing is sent to " +
      "StatusMesh: read the report, then validate, plan and apply the file.",
  );
  for (const source of sources) {
    const sub = command.command(source.name).summary(source.summary).description(source.description);
    if (source.argument !== undefined) sub.argument(...source.argument);
    sub
      .option(
        "--output <file>",
        "write the configuration to a new file, or to new files in folder/; default: standard output",
      )
      .option("--env-file <file>", "write the values of its variables to a new file that only you can read")
      .option("--report <file>", "write the report to a new file: Markdown, or JSON where the name ends in .json")
      .addOption(new Option("--project <project>", "project of the file").argParser(projectName).default(source.name));
    if (source.history !== undefined) sub.option("--history <file>", source.history);
    if (source.apiUrl !== undefined)
      sub
        .option("--api-url <url>", "address of the API; the key is sent to its origin and to no other", source.apiUrl)
        .option("--insecure-http", "send the key over plain http to another machine");
    for (const option of source.options ?? []) sub.addOption(option);
    sub.action(async (...words: unknown[]) => {
      const [input, options] = (source.argument === undefined ? ["", words[0]] : words) as [string, Options];
      const { refuseExisting, writeImported } = await import("../import/write.ts");
      refuseExisting(options);
      writeImported(await source.load(input, options), options);
    });
  }
}
