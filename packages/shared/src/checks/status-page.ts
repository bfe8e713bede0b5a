import Type, { type Static } from "typebox";
import { portOf, urlProblem } from "../url.ts";
import { Closed, described, nullable, OneOf, Shape } from "../schema/shapes.ts";
import { checkAll } from "../schema/faults.ts";
import { schemeRule } from "./http-rules.ts";
import { canonicalHost, urlField } from "./host.ts";
import { AppError } from "../errors.ts";
import { type CheckKind, nullableText, type TestedComponent, timeout } from "./kind.ts";

/** States of a page and of its components, whatever the product calls them. */
export const reportedStates = ["up", "degraded", "down", "maintenance", "unknown"] as const;
export type ReportedState = (typeof reportedStates)[number];

export const StatusPageCheck = Shape("StatusPageCheck", "What the status page of another service reports", {
  type: Type.Literal("status_page"),
  url: urlField("The status page, or its JSON", "https://status.example.org"),
  component: nullableText(200, "Name or id of the component that counts; null: the whole page", {
    label: "Component",
    hint: "Name or id of one component. Empty: the whole page. Test lists the components.",
  }),
  timeout: timeout({ section: "Advanced status page options" }),
});
export type StatusPageCheck = Static<typeof StatusPageCheck>;

/** What the page said at the time of the run. */
export const StatusPageDetails = Shape("StatusPageDetails", "What the page of a status_page check reports", {
  page: described(Type.String({ maxLength: 200 }), "Name of the page", "Example Status"),
  component: described(nullable(Type.String({ maxLength: 200 })), "Component that counts; null: the whole page", null),
  state: OneOf(reportedStates, "State that it reports", "degraded"),
  description: described(Type.String({ maxLength: 300 }), "In the words of the page", "Partially Degraded Service"),
});
export type StatusPageDetails = Static<typeof StatusPageDetails>;

/** Most components that a test lists. */
const maxComponents = 500;

/** Components of a page, as a test lists them. */
export const ReportedComponents = Type.Array(
  Closed({
    id: described(Type.String({ maxLength: 200 }), "Id that the page gives it", "k8w3r06qmzrp"),
    name: described(Type.String({ maxLength: 200 }), "Name of the component", "API"),
    state: OneOf(reportedStates, "State that the page reports", "up"),
  }),
  { maxItems: maxComponents, description: "Of a status_page check: the components of the page" },
);
export type ReportedComponents = Static<typeof ReportedComponents>;

/** `Example Status reports: Partially Degraded Service`. */
export const reportOf = (page: string, description: string): string => `${page} reports: ${description}`;

/** Components with a name or id; letters and case of a name are compared as people read them. */
export function componentsNamed<T extends TestedComponent>(components: readonly T[], wanted: string): T[] {
  const byId = components.filter(({ id }) => id === wanted);
  const plain = (text: string): string => text.normalize("NFC").trim().toLowerCase();
  return byId.length > 0 ? byId : components.filter(({ name }) => plain(name) === plain(wanted));
}

/** Components that an error names. */
const maxNamed = 20;

/** What is wrong with a component that the page does not have, without a full stop. */
export function missingComponent(page: string, wanted: string, components: readonly string[]): string {
  const names = [...new Set(components)];
  const more = names.length > maxNamed ? ` and ${names.length - maxNamed} more` : "";
  const there = names.length === 0 ? "It lists none" : `It has ${names.slice(0, maxNamed).join(", ")}${more}`;
  return `${page} has no component "${wanted}". ${there}`;
}

function urlRule(text: string): void {
  const problem = urlProblem(text);
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url !== null) {
    schemeRule(url.protocol.slice(0, -1));
    if (url.username !== "" || url.password !== "")
      throw new AppError("INVALID_URL_FORMAT", "Remove user and password from the URL: public pages need none.", {
        field: "/url",
      });
  }
  if (problem !== null || url === null)
    throw new AppError("INVALID_URL_FORMAT", problem ?? "Write a URL like https://status.example.org.", {
      field: "/url",
    });
}

export const statusPage: CheckKind<typeof StatusPageCheck, StatusPageDetails> = {
  type: "status_page",
  label: "Status page",
  purpose: "What another service reports",
  icon: "pages",
  schema: StatusPageCheck,
  minIntervalSecs: 60,
  defaultIntervalSecs: 120,
  minRecheckSecs: 60,
  rules: ({ url }) => checkAll(() => urlRule(url)),
  destination(spec) {
    const url = new URL(spec.url);
    return { host: canonicalHost(url.hostname), port: portOf(url), pointer: "/url" };
  },
  url: (spec) => new URL(spec.url),
  testedUrl: ({ url, component }) => (component === null ? null : url),
  savedWarnings({ url, component }, tested) {
    if (component === null || tested === null || componentsNamed(tested, component).length > 0) return [];
    const names = tested.map(({ name }) => name.slice(0, 60));
    return [`${missingComponent(canonicalHost(new URL(url).hostname), component, names)}.`];
  },
  mapSecrets: (spec) => spec,
  secretsGoTo: () => null,
  shell: {
    subject: "<url>",
    read: (subject) => ({ url: subject }),
  },
  summary: ({ url, component }) => (component === null ? url : `${component} on ${url}`),
  searchText: ({ url, component }) => (component === null ? url : `${url}\n${component}`),
  details: {
    schema: StatusPageDetails,
    inWords: ({ page, description }) => reportOf(page, description),
  },
};
