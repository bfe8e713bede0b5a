import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { parseYaml } from "@statusmesh/shared/declared/yaml";
import { isRow, type Row, row, rows, text } from "@statusmesh/shared/foreign/values";
import type { Cluster } from "./kubernetes.ts";

/** Where a pod finds its service account. */
const account = "/var/run/secrets/kubernetes.io/serviceaccount";

/** The cluster that this pod runs in. Throws an Error outside of one. */
export function ownCluster(env: NodeJS.ProcessEnv): Cluster {
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port = "443" } = env;
  if (!host) throw new Error("this is no pod of a cluster: give --kubeconfig or --kubernetes-url");
  const url = new URL(`https://${host.includes(":") ? `[${host}]` : host}:${port}`);
  return { url, caFile: `${account}/ca.crt`, tokenFile: `${account}/token` };
}

/** The current context of a kubeconfig file. Throws an Error for what cannot be used of it. */
export function clusterOf(file: string): Cluster {
  const { value, mistakes } = parseYaml(readFileSync(file, "utf8"), file);
  if (mistakes.length > 0 || !isRow(value)) throw new Error(`${file}: ${mistakes[0]?.message ?? "it is no map"}`);
  const named = (section: string, name: string): Row =>
    rows(value[section]).find((one) => text(one["name"]) === name) ?? {};
  const context = row(named("contexts", text(value["current-context"]))["context"]);
  const cluster = row(named("clusters", text(context["cluster"]))["cluster"]);
  const user = row(named("users", text(context["user"]))["user"]);
  const server = text(cluster["server"]);
  if (!URL.canParse(server)) throw new Error(`${file}: its current context names no server`);
  if (user["exec"] !== undefined || user["auth-provider"] !== undefined)
    throw new Error(`${file}: its user signs in by a program: use a token of a service account`);
  if (cluster["insecure-skip-tls-verify"] === true)
    throw new Error(`${file}: its cluster is not verified: name its certificate-authority`);
  const path = (of: Row, name: string): string | undefined =>
    text(of[name]) === "" ? undefined : resolve(dirname(file), text(of[name]));
  const data = (of: Row, name: string): Buffer | undefined => {
    if (text(of[`${name}-data`]) !== "") return Buffer.from(text(of[`${name}-data`]), "base64");
    const at = path(of, name);
    return at === undefined ? undefined : readFileSync(at);
  };
  const [ca, cert, key] = [
    data(cluster, "certificate-authority"),
    data(user, "client-certificate"),
    data(user, "client-key"),
  ];
  const tokenFile = path(user, "tokenFile");
  return {
    url: new URL(server),
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
    ...(text(user["token"]) === "" ? {} : { token: text(user["token"]) }),
    ...(tokenFile === undefined ? {} : { tokenFile }),
  };
}
