import { canonicalHost } from "@statusmesh/shared/checks/host";
import {
  componentsNamed,
  missingComponent,
  type ReportedComponents,
  type ReportedState,
  reportOf,
  type StatusPageCheck,
} from "@statusmesh/shared/checks/status-page";
import { DialError } from "@statusmesh/shared/net/dial-error";
import { clean } from "../../run/verdicts.ts";
import type { Probe, ProbeContext, Verdict } from "../probe.ts";
import { type ReportedPage, recognised, withMore, worst } from "./forms.ts";
import { JsonRequests, type JsonReply } from "./requests.ts";

/** Where the document of a page was found. Kept per check object, which stays the same between runs. */
const remembered = new WeakMap<StatusPageCheck, URL>();

/** What the status page of another service reports, of the whole page or of one component. */
export const statusPage: Probe<StatusPageCheck> = {
  timeoutStatus: "error",
  async run(spec, context) {
    try {
      const found = await find(spec, new JsonRequests(context));
      return "error" in found ? found : judge(spec, found, context);
    } catch (error) {
      // A page that cannot be read says nothing about the service that it reports on.
      if (!(error instanceof DialError) || error.phase === "guard" || error.local) throw error;
      const { message, transport: transportFailed, unresolved } = error;
      return { status: "error", error: message, transportFailed, unresolved };
    }
  },
};

const failed = (error: string): Verdict => ({ status: "error", error });

/** Addresses of the documents of a page, in the order in which they are requested. */
function addressesOf({ url: text }: StatusPageCheck): URL[] {
  const url = new URL(text);
  url.hash = "";
  if (/\.json$|\/api\//.test(url.pathname)) return [url];
  const [, base, slug] = /^(.*?)\/status\/([\w-]+)\/?$/.exec(url.pathname) ?? [];
  const own = url.pathname.endsWith("/") ? url.pathname.slice(0, -1) : url.pathname;
  const paths =
    slug === undefined
      ? [
          `${own}/api/v2/summary.json`,
          `${own}/summary.json`,
          `${own}/index.json`,
          `${own}/api/public/v1/status`,
          `${own}/api/v1/components`,
          `${own}/api/components`,
        ]
      : [
          `${base}/api/status-page/${slug}`,
          `${own}/api/v2/summary.json`,
          `${own}/summary.json`,
          `${own}/index.json`,
          `${base}/api/v1/components`,
        ];
  return paths.map((path) => new URL(path, url.origin));
}

async function find(spec: StatusPageCheck, requests: JsonRequests): Promise<ReportedPage | Verdict> {
  const known = remembered.get(spec);
  if (known !== undefined) {
    const page = await read(known, requests);
    if ("components" in page) return page;
    if (page.status !== 404 && page.status !== 410 && page.status !== 200) return failed(page.problem);
    remembered.delete(spec);
  }
  let problem = "";
  let base: URL | null = null;
  for (const address of addressesOf(spec)) {
    if (requests.left === 0) break;
    // A page that redirects to another server is asked there from then on.
    const url: URL = base === null ? address : new URL(address.pathname + address.search, base.origin);
    const page = await read(url, requests);
    if (requests.last !== null && requests.last.pathname === url.pathname) base = requests.last;
    if ("components" in page) {
      remembered.set(spec, requests.found ?? url);
      return page;
    }
    // The page that people read is rarely JSON: only other answers are worth a word.
    if (problem === "" || (page.status !== 404 && page.status !== 200)) problem = page.problem;
  }
  return failed(
    `no status page was recognised: ${problem}. Give the address of the page, or of its JSON ` +
      "(Statuspage, Instatus, Better Stack, StatusMesh, Uptime Kuma, Cachet)",
  );
}

type Unread = { status: number; problem: string };

/** The page that a document reports, with its second document; or why there is none. */
async function read(url: URL, requests: JsonRequests): Promise<ReportedPage | Unread> {
  const reply = await requests.get(url);
  const page = "document" in reply ? recognised(reply.document) : null;
  if (page === null) return unread(url, reply);
  requests.found = requests.last;
  if (page.more === null || requests.left === 0) return page;
  const at = requests.last ?? url;
  const more = await requests.get(new URL(page.more, pageOf(at)));
  return "document" in more ? withMore(page, more.document) : page;
}

/** The folder of the page of a document: its second one is below it. */
function pageOf(url: URL): string {
  const { origin, pathname } = url;
  const api = pathname.indexOf("/api/");
  return origin + pathname.slice(0, api >= 0 ? api : pathname.lastIndexOf("/"));
}

const unread = (url: URL, reply: JsonReply): Unread => ({
  status: reply.status,
  problem:
    "document" in reply
      ? `${url.pathname} is JSON of no known form`
      : "problem" in reply
        ? `${url.pathname}: ${reply.problem}`
        : `${url.pathname} answered ${reply.status}`,
});

const statuses: Readonly<Record<ReportedState, Pick<Verdict, "status"> & { skip?: true }>> = {
  up: { status: "up" },
  maintenance: { status: "up" },
  degraded: { status: "degraded" },
  down: { status: "down" },
  unknown: { status: "error", skip: true },
};

const stateWords: Readonly<Record<ReportedState, string>> = {
  up: "operational",
  degraded: "degraded",
  down: "down",
  maintenance: "under maintenance",
  unknown: "no data",
};

function judge(spec: StatusPageCheck, page: ReportedPage, context: ProbeContext): Verdict {
  const { warn, note } = context;
  const components = page.components ?? [];
  context.listComponents?.(components);
  const name = clean(page.name ?? canonicalHost(new URL(spec.url).hostname), 200);
  const own = spec.component === null ? null : componentsNamed(components, spec.component);
  if (own !== null && own.length === 0) {
    const problem = missingComponent(
      name,
      clean(spec.component!, 200),
      components.map((one) => clean(one.name, 60)),
    );
    warn(`${problem}.`);
    return failed(problem);
  }
  if (own !== null && own.length > 1)
    warn(`${own.length} components are named ${own[0]!.name}, and the worst one counts. Use the id of one.`);
  const known = components.filter(({ state }) => state !== "unknown");
  const allDown = known.length > 0 && known.every(({ state }) => state === "down");
  const state = own !== null ? worst(own.map((one) => one.state)) : allDown ? "down" : page.state;
  const description =
    own !== null
      ? `${own[0]!.name} is ${stateWords[state]}`
      : (page.description ?? affected(components) ?? `all is ${stateWords[state]}`);
  const shown = clean(description, 300);
  const component = own === null ? null : clean(own[0]!.name, 200);
  const verdict = statuses[state];
  const report = reportOf(name, shown);
  if (state === "maintenance") note?.(`${report}.`);
  return {
    ...verdict,
    error: verdict.status === "up" ? null : report,
    details: { page: name, component, state, description: shown },
  };
}

/** The components that are not up: `API is down, Web is degraded and 2 more`. */
function affected(components: ReportedComponents): string | null {
  const bad = components
    .filter(({ state }) => state !== "up" && state !== "unknown")
    .sort((a, b) => (a.state === b.state ? 0 : worst([a.state, b.state]) === a.state ? -1 : 1));
  if (bad.length === 0) return null;
  const named = bad.slice(0, 3).map(({ name, state }) => `${clean(name, 60)} is ${stateWords[state]}`);
  return named.join(", ") + (bad.length > 3 ? ` and ${bad.length - 3} more` : "");
}
