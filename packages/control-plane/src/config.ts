import { existsSync, readFileSync } from "node:fs";
import { relative, resolve } from "node:path";
import { parse, TomlError } from "smol-toml";
import Type, { type Static, type TObject } from "typebox";
import { bindPattern, isLoopback, parseBind } from "@statusmesh/shared/net/bind";
import { endpointNames } from "./channels/kinds/index.ts";
import { readSettings } from "./config-reader.ts";
import { addressList } from "./http/address-list.ts";
import { StartupError } from "./startup-error.ts";

const text = (fallback: string, description: string, expects: string, pattern: string) =>
  Type.String({ default: fallback, description, expects, pattern });
/** Never in the file: from the environment, or from a file that the environment names. Empty means unset. */
const secret = (description: string, expects: string, pattern: string) =>
  Type.String({ default: "", description, expects, pattern, secret: true });
const flag = (fallback: boolean, description: string) =>
  Type.Boolean({ default: fallback, description, expects: "true or false" });
const whole = (fallback: number, minimum: number, maximum: number, description: string) =>
  Type.Integer({
    default: fallback,
    minimum,
    maximum,
    description,
    expects: `a whole number from ${minimum} to ${maximum}`,
  });

const provider = (name: string, issuer: string, example: string) =>
  Type.Object({
    client_id: text(
      "",
      `Client id of the application that was registered with ${name}`,
      "a client id without white space",
      "^\\S*$",
    ),
    client_secret: secret(`Client secret of that application`, "a client secret without white space", "^\\S*$"),
    issuer: text(
      "",
      `Replaces ${issuer}`,
      `an https URL like ${example}; http only on a loopback address`,
      "^(?:https?://[^\\s?#@]+)?$",
    ),
  });

/** 32 bytes in base64: 42 full characters, one that ends on two zero bits, one of padding. */
const key32Pattern = "^(?:[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=)?$";

/** Every key that works today, with its default. Keys of the file and names of the environment both come from here. */
export const ConfigSchema = Type.Object({
  server: Type.Object({
    bind: text(
      "127.0.0.1:8080",
      "Address and port to listen on",
      "host:port, for example 127.0.0.1:8080 or [::1]:8080",
      `^${bindPattern}$`,
    ),
    public_url: text(
      "",
      "How browsers and agents reach this service; http://<bind> when empty",
      "an http or https origin without a path, for example https://status.example.org",
      "^(?:https?://[^\\s/?#@]+/?)?$",
    ),
    metrics_bind: text(
      "",
      "Address and port of GET /metrics, for Prometheus; empty: there is none",
      "host:port, for example 127.0.0.1:9463, or nothing",
      `^(?:${bindPattern})?$`,
    ),
    max_connections: whole(4000, 10, 1_000_000, "Open connections; beyond them only /healthz and /readyz are answered"),
    max_connections_per_address: whole(
      400,
      0,
      1_000_000,
      "Open connections of one address (of IPv6, one /64) that is no trusted proxy; 0 is any number",
    ),
    trusted_proxies: Type.Array(Type.String({ minLength: 1 }), {
      default: [],
      description: "Proxies in front whose X-Forwarded-For says who a visitor of the status page is, and who signs in",
      expects: "a list of addresses or ranges like 127.0.0.1 or 10.0.0.0/8",
    }),
  }),
  api: Type.Object({
    rate_limit: Type.Object({
      enabled: flag(false, "Limits what one TCP peer may ask of /api/v1, in each process"),
      per_second: whole(20, 1, 100_000, "Requests per second that a peer may go on with"),
      burst: whole(100, 1, 1_000_000, "Requests that a peer may send at once"),
    }),
    cors: Type.Object({
      enabled: flag(false, "Lets web pages of other origins call what is under /api"),
      allowed_origins: Type.Array(Type.String({ pattern: "^https?://[^\\s/?#@*]+$" }), {
        default: [],
        description: "The origins that may",
        expects: "a list of origins like https://app.example.org, without a path",
      }),
      allow_any_origin: flag(false, "Any origin may; not together with allowed_origins"),
      allowed_methods: Type.Array(Type.Enum(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]), {
        default: ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"],
        description: "The methods that a preflight allows",
        expects: "a list of GET, HEAD, POST, PUT, PATCH, DELETE and OPTIONS",
      }),
    }),
  }),
  data: Type.Object({
    dir: text("./data", "Folder of the embedded database and of files", "a folder name", "^[^\\0]+$"),
  }),
  database: Type.Object({
    url: secret(
      "Postgres 15 or newer; empty starts the embedded one in data.dir",
      "a URL like postgres://user:password@host:5432/name",
      "^(?:postgres(?:ql)?://\\S+)?$",
    ),
    listen_url: secret(
      "Direct URL of the database behind a pooler, for LISTEN, migrations and locks; empty: database.url",
      "a URL like postgres://user:password@host:5432/name",
      "^(?:postgres(?:ql)?://\\S+)?$",
    ),
    prepare: flag(true, "False behind a pooler in transaction mode; needs listen_url"),
    pool_size: whole(10, 10, 200, "Largest number of connections, besides the one that listens; jobs hold up to seven"),
    connect_timeout_ms: whole(4000, 200, 60_000, "Time limit for connecting, of several hosts together"),
    statement_timeout_ms: whole(30_000, 1000, 600_000, "Time limit of a statement; jobs may take longer"),
  }),
  redis: Type.Object({
    url: secret(
      "Redis that counts rate limits for all replicas; empty counts in each process",
      "a URL like redis://user:password@host:6379/0 or rediss://…",
      "^(?:rediss?://\\S+)?$",
    ),
  }),
  bootstrap: Type.Object({
    email: text(
      "owner@localhost",
      "Email address of the owner made at the first start",
      "an email address",
      "^[^\\s@]+@[^\\s@]+$",
    ),
    org_name: text(
      "My organisation",
      "Name of the organisation made at the first start",
      "1 to 80 characters",
      "^(?=.*\\S).{1,80}$",
    ),
    token: secret(
      "API token made at the first start, with every scope",
      "sm_live_ and at least 32 characters of A-Z a-z 0-9 - _",
      "^(?:sm_live_[A-Za-z0-9_-]{32,})?$",
    ),
  }),
  security: Type.Object({
    allow_private_targets: flag(false, "Lets checks reach private and local addresses"),
    credentials_kek_base64: secret(
      "Key that seals stored credentials (AES-256-GCM); empty stores them in plain text",
      "32 bytes in base64 (44 characters)",
      key32Pattern,
    ),
    credentials_kek_previous_base64: secret(
      "The key before it, which still opens what it sealed until statusmesh rotate-kek has run",
      "32 bytes in base64 (44 characters)",
      key32Pattern,
    ),
  }),
  scheduler: Type.Object({
    region: text(
      "default",
      "The region of this control plane and of its built-in agent",
      "1 to 40 of a-z, 0-9 and -",
      "^[a-z0-9-]{1,40}$",
    ),
    builtin_agent: flag(true, "Runs an agent for the own region beside the control plane"),
    canaries: text(
      "",
      "Places that always answer, by which the built-in agent tells an outage of its own network; empty: the targets that answer best",
      "host:port, separated by commas",
      "^(?:\\s*[^\\s,]+:\\d{1,5}\\s*(?:,|$))*$",
    ),
    jitter_pct: whole(10, 0, 100, "How far the start of a run may move after its slot, percent of the interval"),
  }),
  abuse: Type.Object({
    url_patterns_file: text(
      "",
      "YAML or TOML file of URL paths that may not be monitored; empty uses a short list of our own",
      "a file name",
      "^[^\\0]*$",
    ),
    domain_denylist_file: text(
      "",
      "YAML or TOML file of domains that may be neither monitored nor notified, with all below them",
      "a file name",
      "^[^\\0]*$",
    ),
  }),
  alerts: Type.Object({
    digest_threshold: whole(
      20,
      0,
      100_000,
      "A chat, mail or SMS channel gets one digest when more incidents than this open within a minute; 0: never",
    ),
    heartbeat_url: text(
      "",
      "URL that is requested every minute while monitoring and alerting work, for a dead-man's switch; empty: none",
      "an http or https URL like https://hc-ping.example.org/abc, or nothing",
      "^(?:https?://[^\\s/?#@]+(?:[/?]\\S*)?)?$",
    ),
  }),
  channels: Type.Object({
    allow_http: flag(false, "Lets webhooks have http addresses, where security.allow_private_targets is true as well"),
    ca_file: text(
      "",
      "PEM file of certificate authorities to trust beside the usual ones when a notification is sent; empty: none",
      "a file name",
      "^[^\\0]*$",
    ),
    endpoints: Type.Object(
      Object.fromEntries(
        endpointNames.map((name) => [
          name,
          text(
            "",
            `Origin and base path that messages to ${name} go to in place of those of the channel, such as a relay; empty: none`,
            "an http or https URL like https://relay.example.org/slack, without a query",
            "^(?:https?://[^\\s?#@]+)?$",
          ),
        ]),
      ),
    ),
  }),
  checker: Type.Object({
    per_host_max_inflight: whole(
      2,
      1,
      1000,
      "Checks of one organisation that may run at once against one host and port",
    ),
    rdap_max_inflight: whole(
      1,
      1,
      100,
      "Questions of an agent that may be open at once to the registry of one top-level domain",
    ),
    rdap_bootstrap_url: text(
      "",
      "Where the built-in agent gets the list of RDAP registries; IANA when empty",
      "an https URL, or an http one on this machine, like https://mirror.example.org/rdap/dns.json",
      "^(?:https://[^\\s/?#@]+(?:/\\S*)?|http://(?:localhost|127(?:\\.\\d{1,3}){3}|\\[::1\\])(?::\\d{1,5})?(?:/\\S*)?)?$",
    ),
  }),
  auth: Type.Object({
    required: flag(true, "False lets everybody in as the owner of the first organisation"),
    trusted_proxy: flag(
      false,
      "Says that a proxy in front decides who comes in, which auth.required = false needs beyond loopback",
    ),
    enabled_methods: Type.Array(Type.Enum(["github", "google", "magic_link"]), {
      default: ["magic_link"],
      description: "How people sign in",
      expects: "a list of: github, google, magic_link",
    }),
    github: provider("GitHub", "https://github.com, for GitHub Enterprise", "https://github.example.org"),
    google: provider(
      "Google",
      "https://accounts.google.com, for any provider with OpenID Connect discovery",
      "https://login.example.org",
    ),
    per_ip_rate_limit_per_min: whole(
      60,
      0,
      1_000_000,
      "Attempts to sign in of one visitor per minute; 0 is any number",
    ),
    session: Type.Object({
      cookie_name: text(
        "_sm_session",
        "Name of the session cookie",
        "1 to 64 of A-Z a-z 0-9 - _",
        "^[A-Za-z0-9_-]{1,64}$",
      ),
    }),
    magic_link: Type.Object({
      throttle_secs: whole(60, 0, 86_400, "How long an address waits for its next sign-in link, seconds; 0 never"),
    }),
    api_tokens: Type.Object({ max_per_user: whole(25, 1, 10_000, "Live API tokens that one user may have") }),
    invitations: Type.Object({
      max_pending_per_org: whole(
        50,
        1,
        10_000,
        "Invitations of one organisation that may be pending; a plan may allow fewer",
      ),
    }),
  }),
  email: Type.Object({
    smtp_url: secret(
      "Mail server; empty writes mail to the log instead",
      "a URL like smtps://user:password@mail.example.org:465",
      "^(?:smtps?://\\S+)?$",
    ),
    from: text(
      "StatusMesh <statusmesh@localhost>",
      "Sender of mail",
      "an address like StatusMesh <status@example.org>",
      "^(?:[^<>@\\r\\n]*<[^\\s<>@]+@[^\\s<>@]+>|[^\\s<>@]+@[^\\s<>@]+)$",
    ),
  }),
  operator: Type.Object({
    admin_token: secret(
      "Bearer secret of /operator; empty turns that surface off",
      "at least 16 characters without white space",
      "^(?:\\S{16,})?$",
    ),
    email: text(
      "",
      "Who is told when a region or an agent needs a person; empty tells bootstrap.email",
      "an email address, or nothing",
      "^(?:[^\\s@]+@[^\\s@]+)?$",
    ),
  }),
  retention: Type.Object({
    audit_days: whole(730, 1, 36_500, "How long the audit log is kept, days"),
    quota_events_days: whole(90, 30, 36_500, "How long refusals by a plan are kept, days"),
    login_attempts_days: whole(180, 1, 36_500, "How long the log of attempts to sign in is kept, days"),
  }),
  tenancy: Type.Object({
    default_plan: text(
      "selfhost",
      "Plan of a new organisation",
      "the id of a plan: 1 to 40 of a-z, 0-9, - and _",
      "^[a-z0-9_-]{1,40}$",
    ),
    free_tier_owner_org_limit: whole(3, 1, 10_000, "Organisations that one user may own"),
    deletion_grace_period_days: whole(30, 0, 3650, "How long a deleted organisation can be restored, days"),
    path_based_public_routes: flag(true, "Serves the status page under /status"),
    subdomain_public_routes: flag(false, "Serves each status page at {slug}.{public_status.base_domain}"),
  }),
  public_status: Type.Object({
    base_domain: text(
      "",
      "The domain below which status pages have hosts of their own",
      "a domain like status.example.org",
      "^(?:[a-z0-9-]{1,63}(?:\\.[a-z0-9-]{1,63})*)?$",
    ),
    last_good_ttl_secs: whole(
      3600,
      0,
      604_800,
      "How long a status page may show its last good copy while the database is away, seconds",
    ),
    public_per_ip_rate_limit_per_min: whole(
      60,
      0,
      1_000_000,
      "Requests per minute of one visitor to the status page and its JSON; 0 is any number",
    ),
  }),
  log: Type.Object({
    level: Type.Union(
      [
        Type.Literal("debug"),
        Type.Literal("info"),
        Type.Literal("warn"),
        Type.Literal("error"),
        Type.Literal("silent"),
      ],
      {
        default: "info",
        description: "The least level that is written",
        expects: "debug, info, warn, error or silent",
      },
    ),
    format: Type.Union([Type.Literal("json"), Type.Literal("pretty")], {
      default: "json",
      description: "pretty on a terminal, else json",
      expects: "json or pretty",
    }),
  }),
});

/** The settings, checked and complete; `data.dir` is absolute, `server.public_url` has no slash at its end. */
export interface Config extends Static<typeof ConfigSchema> {}

export interface ConfigSources {
  /** What `--config` says. */
  path?: string | undefined;
  env: Record<string, string | undefined>;
  cwd: string;
  /** Whether the log goes to a terminal. */
  tty?: boolean;
}

/** Variables under SM_ that others read: the agent, the tests, and the name of the file itself. */
const foreign = /^SM_(?:CONFIG$|COMMAND$|AGENT_|TEST_)/;

/**
 * The configuration from `statusmesh.toml` (or the file that `--config` or SM_CONFIG names) and SM_ variables, which win.
 * Throws one StartupError with a line for every problem.
 */
export function loadConfig(sources: ConfigSources): Config {
  const { env, cwd } = sources;
  const { values, problems } = readSettings(withTerminal(ConfigSchema, sources.tty ?? false), {
    file: readBaseFile(sources),
    env,
    prefix: "SM_",
    foreign,
    readText: (path) => readFileSync(resolve(cwd, path), "utf8"),
  });
  const config = values as Config;
  const bind = parseBind(config.server.bind);
  for (const key of ["bind", "metrics_bind"] as const) {
    const { port } = parseBind(config.server[key]);
    if (port > 65_535) problems.push(`server.${key} asks for port ${port}: ports end at 65535`);
  }
  if (!URL.canParse(config.server.public_url === "" ? "http://localhost" : config.server.public_url))
    problems.push(`server.public_url is not a URL: ${config.server.public_url}`);
  if (!config.auth.required && !config.auth.trusted_proxy && !isLoopback(bind.host))
    problems.push(
      "auth.required is false, so everybody who can reach server.bind owns everything: bind to 127.0.0.1, or set auth.trusted_proxy when a proxy in front decides who comes in",
    );
  if (!config.auth.required && config.api.cors.allow_any_origin)
    problems.push(
      "auth.required is false and api.cors.allow_any_origin is true, so every page that a browser opens would own everything: list the origins in api.cors.allowed_origins, or set auth.required",
    );
  problems.push(...providerProblems(config));
  if (config.security.credentials_kek_previous_base64 !== "" && config.security.credentials_kek_base64 === "")
    problems.push(
      "security.credentials_kek_previous_base64 needs a key that follows it in security.credentials_kek_base64",
    );
  if (config.api.cors.allow_any_origin && config.api.cors.allowed_origins.length > 0)
    problems.push("api.cors.allow_any_origin and api.cors.allowed_origins exclude each other: keep one of them");
  if (config.tenancy.subdomain_public_routes && !config.public_status.base_domain.includes("."))
    problems.push(
      `tenancy.subdomain_public_routes needs public_status.base_domain, a domain with a dot like status.example.org${config.public_status.base_domain === "" ? "" : `, not ${config.public_status.base_domain}`}`,
    );
  try {
    addressList(config.server.trusted_proxies);
  } catch (error) {
    problems.push(`server.trusted_proxies: ${(error as Error).message}; write 127.0.0.1, 10.0.0.0/8 or the like`);
  }
  if (problems.length > 0) throw new StartupError(problems.join("\n"));

  config.data.dir = resolve(cwd, config.data.dir);
  for (const key of ["url_patterns_file", "domain_denylist_file"] as const)
    if (config.abuse[key] !== "") config.abuse[key] = resolve(cwd, config.abuse[key]);
  if (config.channels.ca_file !== "") config.channels.ca_file = resolve(cwd, config.channels.ca_file);
  config.server.public_url = (config.server.public_url || publicUrlOf(bind)).replace(/\/$/, "");
  return config;
}

/** A provider that is switched on has to be registered, and to be reached by TLS. */
function providerProblems({ auth }: Config): string[] {
  return (["github", "google"] as const).flatMap((name) => {
    const { client_id, client_secret, issuer } = auth[name];
    const missing = [
      client_id === "" ? `auth.${name}.client_id` : "",
      client_secret === ""
        ? `auth.${name}.client_secret (SM_AUTH__${name.toUpperCase()}__CLIENT_SECRET or …_FILE)`
        : "",
    ];
    const found = missing.filter((key) => key !== "");
    const problems =
      auth.enabled_methods.includes(name) && found.length > 0
        ? [`auth.enabled_methods has ${name}, which needs ${found.join(" and ")}`]
        : [];
    if (issuer === "") return problems;
    if (!URL.canParse(issuer)) return [...problems, `auth.${name}.issuer is not a URL: ${issuer}`];
    const { protocol, hostname } = new URL(issuer);
    if (protocol === "http:" && !isLoopback(hostname.replace(/^\[|\]$/g, "")))
      problems.push(`auth.${name}.issuer must be https: whoever is between could sign in as anybody`);
    return problems;
  });
}

/** The URL to reach a bound address on this machine: a wildcard address is not one that a browser can open. */
export function publicUrlOf({ host, port }: { host: string; port: number }): string {
  const reachable = host === "0.0.0.0" || host === "::" ? "localhost" : host;
  return `http://${reachable.includes(":") ? `[${reachable}]` : reachable}:${port}`;
}

function withTerminal(schema: typeof ConfigSchema, tty: boolean): TObject {
  if (!tty) return schema;
  const { log } = schema.properties;
  return Type.Object({
    ...schema.properties,
    log: Type.Object({ ...log.properties, format: { ...log.properties.format, default: "pretty" } }),
  });
}

function readBaseFile({ path, env, cwd }: ConfigSources): { name: string; values: Record<string, unknown> } | null {
  const named = path ?? (env["SM_CONFIG"] || undefined);
  const file = resolve(cwd, named ?? "statusmesh.toml");
  if (named === undefined && !existsSync(file)) return null;
  const name = named ?? relative(cwd, file);
  let source: string;
  try {
    source = readFileSync(file, "utf8");
  } catch (error) {
    throw new StartupError(
      `The configuration file ${name} cannot be read (${(error as NodeJS.ErrnoException).code ?? String(error)}).`,
      { cause: error },
    );
  }
  try {
    return { name, values: parse(source) };
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const reason = error.message.split("\n", 1)[0]!.replace("Invalid TOML document: ", "");
    throw new StartupError(`${name}:${error.line}:${error.column} is not valid TOML: ${reason}`, { cause: error });
  }
}
