import Type from "typebox";

/** A text that matches `pattern`; `expects` describes it in messages. */
export const text = (fallback: string, description: string, expects: string, pattern: string) =>
  Type.String({ default: fallback, description, expects, pattern });
/** Comes from the environment, or from a file named there, never from the configuration file. Empty: unset. */
export const secret = (description: string, expects: string, pattern: string) =>
  Type.String({ default: "", description, expects, pattern, secret: true });
export const flag = (fallback: boolean, description: string) =>
  Type.Boolean({ default: fallback, description, expects: "true or false" });
export const whole = (fallback: number, minimum: number, maximum: number, description: string) =>
  Type.Integer({
    default: fallback,
    minimum,
    maximum,
    description,
    expects: `a whole number from ${minimum} to ${maximum}`,
  });
