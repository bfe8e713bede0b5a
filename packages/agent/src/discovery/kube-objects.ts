import { isRow, list, type Row, row, rows, text } from "@statusmesh/shared/foreign/values";
import type { Found } from "./found.ts";
import { argumentOf } from "./traefik.ts";

/** A kind of object that is listed. */
export interface Resource {
  readonly kind: string;
  readonly group: string;
  readonly plural: string;
  readonly isNamespaced: boolean;
  /** The address of an object, and the id of the object whose annotations are its defaults; absent for a parent. */
  readonly url?: (spec: Row, meta: Row) => string | null;
  readonly parent?: (spec: Row, meta: Row) => string | null;
}

/** What is kept of an object: 5,000 of them are in memory. */
export interface Kept {
  readonly id: string;
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  readonly scope: string;
  readonly created: string;
  readonly annotations: Readonly<Record<string, string>>;
  readonly url: string | null;
  readonly parent: string | null;
  readonly isParent: boolean;
}

const isRead = /^(?:statusmesh\.dev|gatus\.home-operations\.com|gethomepage\.dev)\//;

/** Trivial paths are none. */
const pathOf = (path: unknown): string => (typeof path === "string" && /^\/./.test(path) ? path : "");

export const resources: readonly Resource[] = [
  {
    kind: "IngressClass",
    group: "/apis/networking.k8s.io/v1",
    plural: "ingressclasses",
    isNamespaced: false,
  },
  { kind: "Gateway", group: "/apis/gateway.networking.k8s.io/v1", plural: "gateways", isNamespaced: true },
  {
    kind: "Ingress",
    group: "/apis/networking.k8s.io/v1",
    plural: "ingresses",
    isNamespaced: true,
    url(spec) {
      const rule = rows(spec["rules"]).find(({ host }) => text(host) !== "");
      if (rule === undefined) return null;
      const host = text(rule["host"]);
      const hasTls = rows(spec["tls"]).some(({ hosts }) => list(hosts).some((one) => covers(text(one), host)));
      const paths = rows(row(rule["http"])["paths"]).map(({ path }) => pathOf(path));
      return `${hasTls ? "https" : "http"}://${host}${paths.find((path) => path !== "") ?? ""}`;
    },
    parent: (spec) =>
      text(spec["ingressClassName"]) === "" ? null : `IngressClass /${text(spec["ingressClassName"])}`,
  },
  {
    kind: "HTTPRoute",
    group: "/apis/gateway.networking.k8s.io/v1",
    plural: "httproutes",
    isNamespaced: true,
    url(spec) {
      const [host] = list(spec["hostnames"]).map(text);
      if (host === undefined || host === "") return null;
      const matches = rows(spec["rules"]).flatMap((rule) => rows(rule["matches"]));
      const paths = matches.flatMap(({ path }) =>
        isRow(path) && path["type"] !== "RegularExpression" ? [pathOf(path["value"])] : [],
      );
      return `https://${host}${paths.find((path) => path !== "") ?? ""}`;
    },
    parent(spec, meta) {
      const [ref] = rows(spec["parentRefs"]);
      return ref === undefined
        ? null
        : `Gateway ${text(ref["namespace"]) || text(meta["namespace"])}/${text(ref["name"])}`;
    },
  },
  {
    kind: "IngressRoute",
    group: "/apis/traefik.io/v1alpha1",
    plural: "ingressroutes",
    isNamespaced: true,
    url(spec) {
      for (const { match } of rows(spec["routes"])) {
        const [host, path] = [argumentOf(text(match), "Host"), argumentOf(text(match), "PathPrefix", "Path")];
        if (host !== null) return `${isRow(spec["tls"]) ? "https" : "http"}://${host}${pathOf(path)}`;
      }
      return null;
    },
  },
  {
    kind: "Service",
    group: "/api/v1",
    plural: "services",
    isNamespaced: true,
    url(spec, meta) {
      const [port] = rows(spec["ports"]);
      if (port === undefined) return null;
      const protocol = (text(port["protocol"]) || "TCP").toLowerCase();
      return `${protocol}://${text(meta["name"])}.${text(meta["namespace"])}.svc:${text(port["port"])}`;
    },
  },
];

/** `*.example.org` covers one more label. */
const covers = (pattern: string, host: string): boolean =>
  pattern === host || (pattern.startsWith("*.") && host.slice(host.indexOf(".") + 1) === pattern.slice(2));

export function keptOf({ kind, plural, url, parent }: Resource, id: string, object: Row): Kept {
  const meta = row(object["metadata"]);
  const spec = row(object["spec"]);
  const annotations = Object.create(null) as Record<string, string>;
  for (const [name, value] of Object.entries(row(meta["annotations"])))
    if (isRead.test(name) && typeof value === "string" && !name.includes("widget.")) annotations[name] = value;
  const namespace = text(meta["namespace"]);
  return {
    id,
    kind,
    namespace,
    name: text(meta["name"]),
    scope: `${plural}/${namespace}`,
    created: text(meta["creationTimestamp"]),
    annotations,
    url: url?.(spec, meta) ?? null,
    parent: parent?.(spec, meta) ?? null,
    isParent: url === undefined,
  };
}

/** The annotations of the Gateway or IngressClass of an object. */
export const parentOf = (
  { parent }: Kept,
  parents: ReadonlyMap<string, Kept["annotations"]>,
): Kept["annotations"] | undefined => (parent === null ? undefined : parents.get(parent));

/** Null for a parent. `kind/namespace/name` names what its monitor is known by. */
export function foundOf(kept: Kept, parent: Kept["annotations"] | undefined): Found | null {
  const { isParent, kind, namespace, name, scope, annotations, created, url } = kept;
  if (isParent) return null;
  return {
    words: `${kind} ${namespace}/${name}`,
    id: `${kind}/${namespace}/${name}`,
    name,
    scope,
    labels: annotations,
    created,
    texts: {},
    url: url !== null && URL.canParse(url) ? url : null,
    ...(parent === undefined ? {} : { parent }),
  };
}
