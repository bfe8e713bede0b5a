import Type, { type Static } from "typebox";
import { detailSchemas, type ResultDetails } from "../checks/index.ts";
import { Closed, described, nullable, OneOf } from "../schema/shapes.ts";

/**
 * Status of one run. `unknown` is the state of a monitor without fresh results, not of a run.
 */
export const checkStatuses = ["up", "down", "degraded", "error"] as const;
export type CheckStatus = (typeof checkStatuses)[number];

const CheckStatusSchema = OneOf(checkStatuses, "Status of the run");

const ms = (what: string, example: number) =>
  described(
    nullable(Type.Number({ minimum: 0, maximum: 86_400_000 })),
    `${what}, milliseconds; null where the kind skips the phase`,
    example,
  );

/**
 * The measured part of a result, the same on the agent's wire and in the API. Phases are those of a fresh connection.
 */
export const measurementFields = {
  status: CheckStatusSchema,
  error: described(
    nullable(Type.String({ maxLength: 2000 })),
    "Error in words; null when the status is up. `throttled: host concurrency cap` is no evidence: " +
      "`checker.per_host_max_inflight` other checks of the host were running",
    null,
  ),
  http_status: described(
    nullable(Type.Integer({ minimum: 100, maximum: 999 })),
    "Status code of the last response; null for other kinds",
    200,
  ),
  response_size: described(nullable(Type.Integer({ minimum: 0, maximum: 2_147_483_647 })), "Body bytes read", 5120),
  dns_ms: ms("Name resolution", 4.2),
  connect_ms: ms("TCP connect", 11.8),
  tls_ms: ms("TLS handshake", 23.5),
  ttfb_ms: ms("Request sent to first byte", 61.3),
  total_ms: ms("The whole check", 101.7),
} as const;

/** Data of the kind beside the measurement, for every status. */
export const Details = Type.Unsafe<ResultDetails | null>(
  Type.Union([...detailSchemas, Type.Null()], {
    description:
      "Data of the certificate (tls_cert), the registration (domain_expiry), the packets (ping), performance data " +
      "(exec) or what the page reports (status_page), for every status; null for other kinds and when it could not " +
      "be read",
    examples: [null],
  }),
);

/** The last failure at a destination, which an open circuit breaker keeps from being tried again. */
export const Cause = Closed(
  {
    status: OneOf(["down", "error"], "As the kind of the check judges it"),
    error: Type.String({ maxLength: 2000, description: "Error of that run", examples: ["connection refused"] }),
  },
  { description: "The failure that opened the circuit breaker" },
);
export type Cause = Static<typeof Cause>;

const Measured = Type.Object(measurementFields);
type Measured = Static<typeof Measured>;
const measuredNames = Object.keys(measurementFields) as (keyof Measured)[];

/** The measured fields of a longer record. */
export const measuredPart = (from: Measured): Measured =>
  Object.fromEntries(measuredNames.map((name) => [name, from[name]])) as Measured;

const Measurement = Type.Object({ ...measurementFields, details: Details });

/** Result of a probe, without target and slot. */
export type Measurement = Static<typeof Measurement>;
