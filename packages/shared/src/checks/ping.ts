import Type, { type Static } from "typebox";
import { AppError } from "../errors.ts";
import { checkAll } from "../schema/faults.ts";
import { type CheckKind, degradedAbove, ipVersion, ipVersionRule, thresholdRules, timeout } from "./kind.ts";
import { canonicalHost, hostField, hostOrThrow, refuseInvisible } from "./host.ts";
import { durationOption } from "./shell.ts";
import { described, nullable, Shape } from "../schema/shapes.ts";

/** Title of the collapsed part of the form. */
const section = "Advanced ping options";

export const PingCheck = Shape("PingCheck", "Sends ICMP echo requests", {
  type: Type.Literal("ping"),
  host: hostField("gw.example.org"),
  packets: Type.Integer({
    minimum: 1,
    maximum: 10,
    default: 3,
    description: "Echo requests of one check",
    form: { section, label: "Packets" },
  }),
  max_loss_pct: Type.Integer({
    minimum: 0,
    maximum: 99,
    default: 0,
    errorCode: "INVALID_THRESHOLD",
    description: "Degraded when more packets than this are lost, percent; down when all are",
    form: { section, label: "Packet loss allowed (%)", hint: "Above this: degraded. All lost: down.", beside: true },
  }),
  timeout: timeout({ section, hint: "Includes name resolution and all packets." }),
  degraded_above_ms: degradedAbove({ section, beside: true }),
  ip_version: ipVersion(section),
});
export type PingCheck = Static<typeof PingCheck>;

const RoundTrip = (which: string, example: number) =>
  described(
    nullable(Type.Number({ minimum: 0, maximum: 86_400_000 })),
    `${which} round trip, milliseconds; null when no packet was answered`,
    example,
  );

/** What a ping found, for every status. */
export const PingDetails = Shape("PingDetails", "Packets of a ping check", {
  sent: Type.Integer({ minimum: 0, maximum: 10, description: "Echo requests sent", examples: [3] }),
  received: Type.Integer({ minimum: 0, maximum: 10, description: "Requests that were answered", examples: [3] }),
  loss_pct: Type.Number({ minimum: 0, maximum: 100, description: "Share that was not, percent", examples: [0] }),
  min_ms: RoundTrip("Shortest", 11.2),
  max_ms: RoundTrip("Longest", 12.9),
});
export type PingDetails = Static<typeof PingDetails>;

/** Host names never begin with `-`; an argument that does is an option of the ping program. */
function hostRule(host: string): void {
  hostOrThrow(host);
  if (host.trim().startsWith("-") || canonicalHost(host).startsWith("-"))
    throw new AppError("INVALID_TCP_HOST", `"${host}" begins with a hyphen, which no host does.`, { field: "/host" });
}

export const ping: CheckKind<typeof PingCheck, PingDetails> = {
  type: "ping",
  label: "Ping",
  purpose: "A router, a host without a service",
  icon: "echo",
  schema: PingCheck,
  minIntervalSecs: 10,
  defaultIntervalSecs: 60,
  rules(spec) {
    checkAll(
      () => refuseInvisible(spec.host, "INVALID_TCP_HOST", "/host"),
      () => hostRule(spec.host),
      () => ipVersionRule(hostOrThrow(spec.host), spec.ip_version),
      () => thresholdRules(spec),
    );
  },
  destination: (spec) => ({ host: hostOrThrow(spec.host), pointer: "/host" }),
  mapSecrets: (spec) => spec,
  secretsGoTo: () => null,
  shell: {
    subject: "<host>",
    read: (subject) => ({ host: subject.replace(/^\[(.*)\]$/, "$1") }),
    options: { max_loss_pct: { name: "max-loss" }, degraded_above_ms: durationOption("degraded-above") },
  },
  summary: (spec) => `ping ${spec.host}`,
  searchText: (spec) => spec.host,
  causes: {
    ping_missing: "there is no ping program on the agent's machine: install iputils-ping",
    ping_not_executable:
      "ping may not be executed there: remove its file capability (setcap -r), or keep CAP_NET_RAW in the bounding set",
    ping_socket_refused:
      "the agent may not send echo requests: let net.ipv4.ping_group_range include its group, or give it CAP_NET_RAW",
  },
  details: {
    schema: PingDetails,
    inWords: ({ sent, received, min_ms: least, max_ms: most }) =>
      `${received} of ${sent} packets answered` +
      (least === null || most === null ? "" : `, in ${inMs(least)} to ${inMs(most)} ms`),
  },
};

const inMs = (ms: number): string => (ms >= 100 ? ms.toFixed(0) : ms >= 10 ? ms.toFixed(1) : ms.toFixed(2));
