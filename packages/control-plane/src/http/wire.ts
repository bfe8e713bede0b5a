import Type, { type Static, type TSchema } from "typebox";
import { idPatternInAnyCase } from "@statusmesh/shared/ids";
import { IdText } from "@statusmesh/shared/text";

/** An id, RFC 9562 version 7. */
export const Id = IdText({
  pattern: idPatternInAnyCase,
  format: "uuid",
  errorCode: "INVALID_ID",
  description: "UUIDv7",
});

/** A time: RFC 3339 in UTC with milliseconds. */
export const Timestamp = Type.String({ format: "date-time", description: "RFC 3339, UTC, milliseconds" });

/** The schema or null. What it says for readers it says of both. */
export const nullable = <S extends TSchema>(schema: S) => {
  const { title, description, examples, ...rest } = schema as S & {
    title?: string;
    description?: string;
    examples?: unknown[];
  };
  if (title !== undefined) return Type.Union([schema, Type.Null()]);
  const words = {
    ...(description === undefined ? {} : { description }),
    ...(examples === undefined ? {} : { examples }),
  };
  return Type.Union([Type.Unsafe<Static<S>>(rest), Type.Null()], words);
};

/** `{id}` in a path. Anything that is not an id is answered like an absent one, so it is any string here. */
export const IdParam = Type.Object({ id: Type.String() });

/** What every list answers with. `total` counts the rows that match, whatever limit and offset say. */
export const PageOf = <S extends TSchema>(item: S) =>
  Type.Object(
    {
      items: Type.Array(item, { description: "The rows of this page" }),
      total: Type.Integer({ description: "Rows that match, whatever limit and offset say", examples: [1] }),
      limit: Type.Integer({ description: "As asked for, or capped", examples: [50] }),
      offset: Type.Integer({ description: "As asked for", examples: [0] }),
    },
    { description: "One page of the list, and how many rows there are", ...pageTitle(item) },
  );

/** A page of titled things is called after them. */
const pageTitle = (item: TSchema): { title?: string } => {
  const { title } = item as { title?: string };
  return title === undefined ? {} : { title: `${title}Page` };
};

export interface Page<T> {
  items: T[];
  total: number;
  limit: number;
  offset: number;
}

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
          description: "What was wrong and what would be right, for people",
          examples: ["check.port must be at most 65535."],
        }),
        field: nullable(
          Type.String({
            description: "Of a 400: JSON pointer into the body, or /query/<name>; else null",
            examples: ["/check/port"],
          }),
        ),
        details: nullable(
          Type.Record(Type.String(), Type.Unknown(), {
            description: "Numbers and names behind the message",
            examples: [null],
          }),
        ),
        trace_id: nullable(
          Type.String({ description: "Finds the request in the log", examples: ["4bf92f3577b34da6a3ce929d0e0e4736"] }),
        ),
      },
      { additionalProperties: false, description: "What went wrong" },
    ),
  },
  { additionalProperties: false, title: "Error", description: "The shape of every error" },
);

/** A Date as the API writes it. */
export const iso = (date: Date): string => date.toISOString();
export const isoOrNull = (date: Date | null): string | null => date?.toISOString() ?? null;
