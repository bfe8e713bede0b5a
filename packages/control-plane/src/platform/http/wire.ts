import Type, { type Static, type TProperties, type TSchema } from "typebox";
import { idPatternInAnyCase } from "@statusmesh/shared/ids";
import { nullable } from "@statusmesh/shared/schema/shapes";
import { IdText } from "@statusmesh/shared/text";
import type { Managed } from "../db/managed-queries.ts";
import type { Listed, Paging } from "../db/client/sql.ts";

export { Closed, described, Flag, Integer, nullable, OneOf, Shape, Text } from "@statusmesh/shared/schema/shapes";

/** An id, RFC 9562 version 7. */
export const Id = IdText({
  pattern: idPatternInAnyCase,
  format: "uuid",
  errorCode: "INVALID_ID",
  description: "UUIDv7",
});

/** A time: RFC 3339 in UTC with milliseconds. */
export const Timestamp = Type.String({ format: "date-time", description: "RFC 3339, UTC, milliseconds" });

/** The name of a time zone; `checkedZone` of platform/zoned.ts knows whether it exists. */
export const TimeZoneName = Type.String({
  pattern: "^[A-Za-z][A-Za-z0-9_+/-]*$",
  maxLength: 64,
  errorCode: "INVALID_TIME_ZONE",
  expects: "Use the name of an IANA time zone, like Europe/Berlin or UTC",
  description: "Name of an IANA time zone",
  examples: ["Europe/Berlin"],
});

/** A change: fields that may all be left out. */
export const Patch = <P extends TProperties>(title: string, example: object, fields: P) =>
  Type.Partial(Type.Object(fields), {
    additionalProperties: false,
    title,
    description: "Fields to change; omitted fields stay unchanged",
    examples: [example],
  });

/** Reply of every list. `total` counts all matching rows, regardless of limit and offset. */
export const PageOf = <S extends TSchema>(item: S) =>
  Type.Object(
    {
      items: Type.Array(item, { description: "The rows of this page" }),
      total: Type.Integer({ description: "Matching rows, regardless of limit and offset", examples: [1] }),
      limit: Type.Integer({ description: "As requested, or capped", examples: [50] }),
      offset: Type.Integer({ description: "As requested", examples: [0] }),
    },
    { description: "One page of the list, and the number of rows", ...pageTitle(item) },
  );

/** Title of a page of titled items: `TargetPage`. */
const pageTitle = (item: TSchema): { title?: string } => {
  const { title } = item as { title?: string };
  return title === undefined ? {} : { title: `${title}Page` };
};

export interface Page<T> extends Paging {
  items: T[];
  total: number;
}

/** A page of what a query has listed; `present` gives a row the shape of the API. */
export const pageOf = <R, T>({ rows, total }: Listed<R>, paging: Paging, present: (row: R) => T): Page<T> => ({
  items: rows.map((row) => present(row)),
  total,
  limit: paging.limit,
  offset: paging.offset,
});

/** A page of a list that is read as a whole. */
export const slicePage = <T>(all: readonly T[], { limit, offset }: Paging): Page<T> => ({
  items: all.slice(offset, offset + limit),
  total: all.length,
  limit,
  offset,
});

/** `limit` and `offset` of a list. A limit above `cap` is lowered to it silently. */
export const paging = (defaultLimit: number, cap: number) => ({
  limit: Type.Integer({
    minimum: 1,
    maximum: cap,
    cap,
    default: defaultLimit,
    description: `Page size. Larger values are silently capped at ${cap}`,
  }),
  offset: Type.Integer({ minimum: 0, maximum: 10_000_000, default: 0, description: "Rows to skip" }),
});

/** The envelope of every error. */
export const ErrorEnvelope = Type.Object(
  {
    error: Type.Object(
      {
        code: Type.String({ description: "Stable, upper case with underscores", examples: ["INVALID_TCP_PORT"] }),
        message: Type.String({
          description: "What is wrong and what would be right, for people",
          examples: ["check.port must be at most 65535."],
        }),
        field: nullable(
          Type.String({
            description: "For a 400: JSON pointer into the body, or /query/<name>; else null",
            examples: ["/check/port"],
          }),
        ),
        details: nullable(
          Type.Record(Type.String(), Type.Unknown(), {
            description:
              "Numbers and names behind the message. With several faults `errors` has up to 20 of them, the first " +
              "included: field, code and message of each",
            examples: [null],
          }),
        ),
        trace_id: nullable(
          Type.String({ description: "Finds the request in the log", examples: ["4bf92f3577b34da6a3ce929d0e0e4736"] }),
        ),
      },
      { additionalProperties: false, description: "The error" },
    ),
  },
  { additionalProperties: false, title: "Error", description: "The shape of every error" },
);

/** A Date in the format of the API. */
export const iso = (date: Date): string => date.toISOString();
export const isoOrNull = (date: Date | null): string | null => date?.toISOString() ?? null;

type IsoTimes<R> = {
  [K in keyof R]: R[K] extends Date ? string : R[K] extends Date | null ? string | null : R[K];
};

type TimeName = "at" | "until" | `${string}_at` | `${string}_since`;

/** The row of what a reply shows: its times are dates. {@link isoTimes} makes them texts again. */
export type StoredRow<T> = {
  [K in keyof T]: K extends TimeName ? (null extends T[K] ? Date | null : Date) : T[K];
};

/** A row with its times in the format of the API. */
export const isoTimes = <R extends object>(row: R): IsoTimes<R> =>
  Object.fromEntries(
    Object.entries(row).map(([name, value]) => [name, value instanceof Date ? iso(value) : value]),
  ) as IsoTimes<R>;

export const WriteSourceSchema = Type.Enum(["ui", "api", "terraform"], {
  description: "Which kind of client wrote it last",
  examples: ["api"],
});

export const ManagedBy = nullable(
  Type.Object(
    {
      project: Type.String({ description: "Project of configuration as code", examples: ["shop"] }),
      key: Type.String({ description: "Key of the object in its files", examples: ["web/checkout"] }),
      source: Type.Optional(
        Type.String({
          description: "What discovery found it at",
          examples: ["Docker, host nas, container immich-server"],
        }),
      ),
      orphaned_since: Type.Optional(
        Type.Unsafe<string>({ ...Timestamp, description: "Since when discovery does not find it any more" }),
      ),
    },
    {
      additionalProperties: false,
      description: "The project that declares the object in files: its next apply undoes other changes. Null: none",
      examples: [null],
    },
  ),
);

/** In a request, so that a client can send back what it has read. */
export const ignoredWhenSent = Type.Optional(Type.Unknown({ description: "Decided by the server; ignored when sent" }));

/** Fields of every object that may be declared, in requests: the server sets them. */
export const ignored = { write_source: ignoredWhenSent, managed_by: ignoredWhenSent };

/** `managed_by` of a reply. */
export const managedBy = (managed: Managed | null): Static<typeof ManagedBy> =>
  managed === null
    ? null
    : {
        project: managed.project,
        key: managed.key,
        ...(managed.source === undefined ? {} : { source: managed.source.object }),
        ...(managed.orphaned_since === undefined ? {} : { orphaned_since: managed.orphaned_since }),
      };
