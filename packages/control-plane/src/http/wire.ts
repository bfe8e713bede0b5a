import Type, { type TSchema } from "typebox";
import { idPattern } from "@statusmesh/shared/ids";

/** An id, RFC 9562 version 7. */
export const Id = Type.String({ pattern: idPattern, format: "uuid", errorCode: "INVALID_ID", description: "UUIDv7" });

/** A time: RFC 3339 in UTC with milliseconds. */
export const Timestamp = Type.String({ format: "date-time", description: "RFC 3339, UTC, milliseconds" });

export const nullable = <S extends TSchema>(schema: S) => Type.Union([schema, Type.Null()]);

/** `{id}` in a path. Anything that is not an id is answered like an absent one, so it is any string here. */
export const IdParam = Type.Object({ id: Type.String() });

/** What every list answers with. `total` counts the rows that match, whatever limit and offset say. */
export const PageOf = <S extends TSchema>(item: S) => Type.Object({ items: Type.Array(item), total: Type.Integer(), limit: Type.Integer(), offset: Type.Integer() });

export interface Page<T> {
  items: T[];
  total: number;
  limit: number;
  offset: number;
}

/** `limit` and `offset` of a list. A limit above `cap` is lowered to it silently. */
export const paging = (defaultLimit: number, cap: number) => ({
  limit: Type.Integer({ minimum: 1, maximum: cap, cap, default: defaultLimit, description: `Page size; larger values mean ${cap}` }),
  offset: Type.Integer({ minimum: 0, maximum: 10_000_000, default: 0, description: "Rows to skip" }),
});

/** The envelope of every error. */
export const ErrorEnvelope = Type.Object(
  {
    error: Type.Object({
      code: Type.String({ description: "Stable, upper case with underscores" }),
      message: Type.String(),
      field: nullable(Type.String({ description: "JSON pointer into the body, or /query/<name>" })),
      details: nullable(Type.Record(Type.String(), Type.Unknown())),
      trace_id: nullable(Type.String()),
    }),
  },
  { title: "Error" },
);

/** A Date as the API writes it. */
export const iso = (date: Date): string => date.toISOString();
export const isoOrNull = (date: Date | null): string | null => date?.toISOString() ?? null;
