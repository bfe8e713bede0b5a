/** A parsed Prometheus exposition: samples by `name{labels}`, and the declared names. */
export interface Exposition {
  samples: Map<string, number>;
  types: Map<string, string>;
}

const sampleLine = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\"n])*",?)*\})? (\S+)$/;

/** Reads the text exposition format 0.0.4 as strictly as Prometheus does. Throws with the line that is wrong. */
export function readExposition(text: string): Exposition {
  if (!text.endsWith("\n")) throw new Error("the last line does not end");
  const samples = new Map<string, number>();
  const types = new Map<string, string>();
  for (const line of text.slice(0, -1).split("\n")) {
    if (line === "" || line.startsWith("# HELP ")) continue;
    const type = /^# TYPE (\S+) (counter|gauge|histogram|summary|untyped)$/.exec(line);
    if (type !== null) {
      if (types.has(type[1]!)) throw new Error(`declared twice: ${line}`);
      types.set(type[1]!, type[2]!);
      continue;
    }
    const [, name = "", labels = "", value = ""] = sampleLine.exec(line) ?? [];
    const number = value === "+Inf" ? Infinity : value === "Nan" || value === "" ? Number.NaN : Number(value);
    if (name === "" || (Number.isNaN(number) && value !== "NaN" && value !== "Nan"))
      throw new Error(`no sample: ${line}`);
    if (!types.has(name) && !types.has(name.replace(/_(?:bucket|sum|count)$/, "")))
      throw new Error(`never declared: ${line}`);
    if (samples.has(name + labels)) throw new Error(`sample twice: ${line}`);
    samples.set(name + labels, number);
  }
  return { samples, types };
}
