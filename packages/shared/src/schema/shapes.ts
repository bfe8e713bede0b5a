import Type, { type Static, type TObjectOptions, type TProperties, type TSchema } from "typebox";

/** The schema with words of its own. */
export const described = <S extends TSchema>(schema: S, description: string, ...examples: unknown[]) =>
  Type.Unsafe<Static<S>>({ ...schema, description, ...(examples.length === 0 ? {} : { examples }) });

/** A text of a reply. */
export const Text = (description: string, ...examples: unknown[]) => described(Type.String(), description, ...examples);

/** A whole number of a reply. */
export const Integer = (description: string, ...examples: unknown[]) =>
  described(Type.Integer(), description, ...examples);

/** Yes or no of a reply. */
export const Flag = (description: string, ...examples: unknown[]) =>
  described(Type.Boolean(), description, ...examples);

/** One of these words. */
export const OneOf = <const V extends string>(values: readonly V[], description: string, ...examples: unknown[]) =>
  described(Type.Enum([...values]), description, ...examples);

/** An object without other fields. */
export const Closed = <P extends TProperties>(fields: P, options: TObjectOptions = {}) =>
  Type.Object(fields, { additionalProperties: false, ...options });

/** {@link Closed} with a title, which makes it a component of the OpenAPI document. */
export const Shape = <P extends TProperties>(title: string, description: string, fields: P) =>
  Closed(fields, { title, description });

/** The schema or null; description and examples move to the union. */
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
