import type { CheckKind } from "./kind.ts";
import { hostAndPort, portOf } from "../url.ts";
import { canonicalHost } from "./host.ts";
import { credentialsRule, httpRules, mapHeaderSecrets, schemeRule } from "./http-rules.ts";
import { httpShell } from "./http-shell.ts";
import { HttpCheck } from "./http-spec.ts";

export { type ExpectedStatus, HttpCheck } from "./http-spec.ts";

export const http: CheckKind<typeof HttpCheck> = {
  type: "http",
  label: "HTTP",
  purpose: "A website or an API",
  icon: "globe",
  schema: HttpCheck,
  minIntervalSecs: 10,
  defaultIntervalSecs: 60,

  rules: httpRules,

  destination(spec) {
    const url = new URL(spec.url);
    schemeRule(url.protocol.slice(0, -1));
    credentialsRule(url);
    return { host: canonicalHost(url.hostname), port: portOf(url), pointer: "/url" };
  },

  url: (spec) => new URL(spec.url),

  mapSecrets(spec, change) {
    return {
      ...spec,
      headers: mapHeaderSecrets(spec.headers, change),
      basic_auth: spec.basic_auth === null ? null : [spec.basic_auth[0], change(spec.basic_auth[1], "/basic_auth/1")],
      bearer_token: spec.bearer_token === null ? null : change(spec.bearer_token, "/bearer_token"),
    };
  },

  secretsGoTo(spec) {
    const url = new URL(spec.url);
    const server = hostAndPort(canonicalHost(url.hostname), portOf(url));
    // Behind a shared address (CDN, ingress) the Host header decides which server answers.
    const virtual = Object.entries(spec.headers).find(([name]) => name.toLowerCase() === "host")?.[1] ?? "";
    return { origin: `${url.protocol}//${server} ${virtual.toLowerCase()}`, verified: spec.verify_tls };
  },

  shell: httpShell,
  summary: (spec) => `${spec.method} ${spec.url}`,
  searchText: (spec) => spec.url,
};
