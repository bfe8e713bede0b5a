// Writes values as YAML, for people to copy into their files. A text in quotes is the JSON of it.

const words = /^(?:true|false|null|yes|no|on|off|y|n)$/i;
const plain = (text) => /^[a-z_/][\w./-]*(?: [\w./-]+)*$/i.test(text) && !words.test(text);
/** Characters that JSON has as they are, and YAML only escaped. */
const unprintable = /[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g;
const code = (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
const scalar = (value) =>
  typeof value === "string" && plain(value) ? value : JSON.stringify(value).replaceAll(unprintable, code);

const isEmpty = (value) => typeof value !== "object" || value === null || Object.keys(value).length === 0;

/** The lines of a map or a list that is not empty; a value without a line of its own is a scalar, `{}` or `[]`. */
function linesOf(value) {
  if (Array.isArray(value))
    return value.flatMap((item) => {
      if (isEmpty(item)) return [`- ${scalar(item)}`];
      return linesOf(item).map((line, at) => (at === 0 ? `- ${line}` : `  ${line}`));
    });
  return Object.entries(value).flatMap(([key, item]) =>
    isEmpty(item)
      ? [`${scalar(key)}: ${scalar(item)}`]
      : [`${scalar(key)}:`, ...linesOf(item).map((line) => `  ${line}`)],
  );
}

/** A JSON value as YAML 1.2, in blocks. */
export const yamlOf = (value) => `${isEmpty(value) ? scalar(value) : linesOf(value).join("\n")}\n`;
