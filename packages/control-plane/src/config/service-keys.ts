import Type from "typebox";
import { bindPattern } from "@statusmesh/shared/net/address";
import { linkedChannels } from "./channel-keys.ts";
import { fileName, flag, origin, origins, secret, text, whole } from "./reader.ts";

/** 32 bytes in base64: 42 full characters, one that ends on two zero bits, one of padding. */
const key32 = (description: string) =>
  secret(description, "32 bytes in base64 (44 characters)", "^(?:[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=)?$");

const postgresUrl = (description: string) =>
  secret(description, "a URL like postgres://user:password@host:5432/name", "^(?:postgres(?:ql)?://\\S+)?$");

export const server = Type.Object({
  bind: text(
    "127.0.0.1:8080",
    "Address and port to listen on",
    "host:port, for example 127.0.0.1:8080 or [::1]:8080",
    `^${bindPattern}$`,
  ),
  public_url: origin("URL of this service for browsers and agents; empty: http://<bind>", "https://status.example.org"),
  metrics_bind: text(
    "",
    "Address and port of GET /metrics, for Prometheus; empty: off",
    "host:port, for example 127.0.0.1:9463, or nothing",
    `^(?:${bindPattern})?$`,
  ),
  max_connections: whole(4000, 10, 1_000_000, "Open connections; beyond them only /healthz and /readyz are answered"),
  max_connections_per_address: whole(
    400,
    0,
    1_000_000,
    "Open connections per address (IPv6: per /64), trusted proxies excepted; 0: unlimited",
  ),
  trusted_proxies: Type.Array(Type.String({ minLength: 1 }), {
    default: [],
    description: "Reverse proxies whose X-Forwarded-For is trusted for the address of a visitor",
    expects: "a list of addresses or ranges like 127.0.0.1 or 10.0.0.0/8",
  }),
});

export const api = Type.Object({
  rate_limit: Type.Object({
    enabled: flag(false, "Limits the requests of a TCP peer to /api/v1, in each process"),
    per_second: whole(20, 1, 100_000, "Sustained requests per second of a peer"),
    burst: whole(100, 1, 1_000_000, "Burst of requests of a peer"),
  }),
  cors: Type.Object({
    enabled: flag(false, "Allows web pages of other origins to call /api"),
    allowed_origins: origins("Allowed origins"),
    allow_any_origin: flag(false, "Allows any origin; not together with allowed_origins"),
    allowed_methods: Type.Array(Type.Enum(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]), {
      default: ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"],
      description: "Methods that a preflight allows",
      expects: "a list of GET, HEAD, POST, PUT, PATCH, DELETE and OPTIONS",
    }),
  }),
});

export const data = Type.Object({
  dir: text("./data", "Folder of the embedded database and of files", "a folder name", "^[^\\0]+$"),
});

export const database = Type.Object({
  url: postgresUrl("Postgres 15 or newer; empty starts the embedded one in data.dir"),
  listen_url: postgresUrl(
    "Direct URL of the database behind a pooler, for LISTEN, migrations and locks; empty: database.url",
  ),
  prepare: flag(true, "False behind a pooler in transaction mode; needs listen_url"),
  pool_size: whole(14, 14, 200, "Largest number of connections, besides the one that listens; jobs hold up to eight"),
  connect_timeout_ms: whole(4000, 200, 60_000, "Time limit for connecting, of several hosts together"),
  statement_timeout_ms: whole(30_000, 1000, 600_000, "Time limit of a statement; jobs may take longer"),
});

export const redis = Type.Object({
  url: secret(
    "Redis that counts rate limits for all replicas; empty counts in each process",
    "a URL like redis://user:password@host:6379/0 or rediss://…",
    "^(?:rediss?://\\S+)?$",
  ),
});

export const security = Type.Object({
  allow_private_targets: flag(false, "Allows checks of private and local addresses"),
  credentials_kek_base64: key32("Key that encrypts stored credentials (AES-256-GCM); empty: stored in plain text"),
  credentials_kek_previous_base64: key32(
    "Previous key, which decrypts older credentials until statusmesh rotate-kek has run",
  ),
});

export const scheduler = Type.Object({
  region: text(
    "default",
    "Region of this control plane and of its built-in agent",
    "1 to 40 of a-z, 0-9 and -, and not heartbeat or group, which are reserved",
    "^(?!(?:heartbeat|group)$)[a-z0-9-]{1,40}$",
  ),
  builtin_agent: flag(true, "Runs an agent for the own region beside the control plane"),
  canaries: text(
    "",
    "Endpoints by which the built-in agent detects an outage of its own network; empty: its most reliable targets",
    "host:port, separated by commas",
    "^(?:\\s*[^\\s,]+:\\d{1,5}\\s*(?:,|$))*$",
  ),
  jitter_pct: whole(10, 0, 100, "Largest delay of a run after its slot, percent of the interval"),
});

export const declared = Type.Object({
  path: text(
    "",
    "File or folder of configuration as code that the server applies at start and on change; empty: none",
    "a file or folder name",
    "^[^\\0]*$",
  ),
  project: text("", "Project of files that name none", "1 to 40 of a-z, 0-9 and hyphens", "^[a-z0-9-]{0,40}$"),
  org: text("", "Slug of the organisation that they configure; empty: the first one", "a slug", "^[^\\s/]*$"),
  prune: flag(false, "Deletes objects that were removed from the files, unless their on_remove was keep or pause"),
  max_delete: whole(
    -1,
    -1,
    1_000_000,
    "Most deletions of one apply; -1: the larger of 10 and 20 % of the objects of the project",
  ),
});

export const abuse = Type.Object({
  url_patterns_file: fileName(
    "YAML or TOML file of URL paths that must not be monitored; empty: a short built-in list",
  ),
  domain_denylist_file: fileName(
    "YAML or TOML file of domains, with their subdomains, that must be neither monitored nor notified",
  ),
});

export const channels = Type.Object({
  allow_http: flag(false, "Allows http URLs of webhooks; needs security.allow_private_targets"),
  ca_file: fileName("PEM file of additional certificate authorities for sending notifications; empty: none"),
  ...linkedChannels,
  // configSchema adds the keys, which the channel kinds declare.
  endpoints: Type.Object({} as Record<string, ReturnType<typeof text>>),
});

/** The URL that replaces origin and base path of a vendor, under `channels.endpoints`. */
export const channelEndpoint = (name: string) =>
  text(
    "",
    `Origin and base path that messages to ${name} go to in place of those of the channel, such as a ` +
      "relay; empty: none",
    "an http or https URL like https://relay.example.org/slack, without a query",
    "^(?:https?://[^\\s?#@]+)?$",
  );

export const checker = Type.Object({
  per_host_max_inflight: whole(2, 1, 1000, "Concurrent checks of one organisation against one host and port"),
  rdap_max_inflight: whole(1, 1, 100, "Concurrent queries of an agent to the registry of one top-level domain"),
  rdap_bootstrap_url: text(
    "",
    "URL of the list of RDAP registries for the built-in agent; empty: IANA",
    "an https URL, or an http one on this machine, like https://mirror.example.org/rdap/dns.json",
    "^(?:https://[^\\s/?#@]+(?:/\\S*)?|http://(?:localhost|127(?:\\.\\d{1,3}){3}|\\[::1\\])(?::\\d{1,5})?(?:/\\S*)?)?$",
  ),
});

export const heartbeats = Type.Object({
  auto_create: secret(
    "Ping keys of healthchecks whose /ping/<key>/<slug>?create=1 creates a monitor; empty: none",
    "<ping key>:<id of the organisation>, several separated by commas",
    "^(?:\\s*[\\w-]{8,100}:[0-9a-f-]{36}\\s*(?:,|$))*$",
  ),
  host: text(
    "",
    "Host name that answers pings only, also at /<uuid> as hc-ping.com does; empty: none",
    "a host name like ping.example.org, in lower case, without a port",
    "^(?:[a-z0-9-]{1,63}(?:\\.[a-z0-9-]{1,63})*)?$",
  ),
});

export const email = Type.Object({
  smtp_url: secret(
    "Mail server; empty: mails are written to the log",
    "a URL like smtps://user:password@mail.example.org:465",
    "^(?:smtps?://\\S+)?$",
  ),
  from: text(
    "StatusMesh <statusmesh@localhost>",
    "Sender of mail",
    "an address like StatusMesh <status@example.org>",
    "^(?:[^<>@\\r\\n]*<[^\\s<>@]+@[^\\s<>@]+>|[^\\s<>@]+@[^\\s<>@]+)$",
  ),
});

export const log = Type.Object({
  level: Type.Enum(["debug", "info", "warn", "error", "silent"], {
    default: "info",
    description: "Minimum level",
    expects: "debug, info, warn, error or silent",
  }),
  format: Type.Enum(["json", "pretty"], {
    default: "json",
    description: "pretty on a terminal, else json",
    expects: "json or pretty",
  }),
});
