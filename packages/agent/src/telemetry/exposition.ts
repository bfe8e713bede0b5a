/** Prometheus text exposition format, version 0.0.4. */
export type Labels = Readonly<Record<string, string>>;

export interface Sample {
  labels?: Labels;
  value: number;
}

/** One metric as text; empty without samples. */
export function family(type: "counter" | "gauge", name: string, help: string, samples: readonly Sample[]): string {
  if (samples.length === 0) return "";
  return `${head(type, name, help)}${samples.map(({ labels, value }) => line(name, labels, value)).join("")}`;
}

const head = (type: string, name: string, help: string): string =>
  `# HELP ${name} ${help.replaceAll("\\", "\\\\").replaceAll("\n", "\\n")}\n# TYPE ${name} ${type}\n`;

const escaped = (value: string): string =>
  value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");

function line(name: string, labels: Labels = {}, value: number): string {
  const pairs = Object.entries(labels).map(([key, text]) => `${key}="${escaped(text)}"`);
  const labelled = pairs.length === 0 ? name : `${name}{${pairs.join(",")}}`;
  return `${labelled} ${value === Infinity ? "+Inf" : value === -Infinity ? "-Inf" : value}\n`;
}

/** Counts by upper bound, of one series. */
class Buckets {
  readonly counts: Float64Array;
  sum = 0;
  readonly #bounds: readonly number[];

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.counts = new Float64Array(bounds.length + 1);
  }

  observe(value: number): void {
    let at = 0;
    while (at < this.#bounds.length && value > this.#bounds[at]!) at++;
    this.counts[at]!++;
    this.sum += value;
  }
}

/** A histogram with at most one label. */
export class Histogram {
  readonly #bounds: readonly number[];
  readonly #series = new Map<string, Buckets>();

  /** `bounds` are inclusive upper bounds, ascending; larger values are counted too. */
  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
  }

  observe(value: number, label = ""): void {
    let series = this.#series.get(label);
    if (series === undefined) this.#series.set(label, (series = new Buckets(this.#bounds)));
    series.observe(value);
  }

  text(name: string, help: string, label?: string): string {
    let text = head("histogram", name, help);
    for (const [value, { counts, sum }] of this.#series) {
      const labels: Labels = label === undefined ? {} : { [label]: value };
      let total = 0;
      for (const [at, count] of counts.entries()) {
        total += count;
        text += line(
          `${name}_bucket`,
          { ...labels, le: at < this.#bounds.length ? String(this.#bounds[at]) : "+Inf" },
          total,
        );
      }
      text += line(`${name}_sum`, labels, sum) + line(`${name}_count`, labels, total);
    }
    return text;
  }
}
