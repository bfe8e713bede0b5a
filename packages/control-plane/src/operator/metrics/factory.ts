import { Counter, Gauge, Histogram, Registry } from "prom-client";

/** Makes metrics named `statusmesh_…` in one registry. */
export class MetricFactory {
  readonly registry = new Registry();

  counter(name: string, help: string, ...labelNames: string[]): Counter {
    return new Counter({ registers: [this.registry], name: `statusmesh_${name}`, help, labelNames });
  }

  gauge(name: string, help: string, ...labelNames: string[]): Gauge {
    return new Gauge({ registers: [this.registry], name: `statusmesh_${name}`, help, labelNames });
  }

  /** A gauge whose value each scrape reads; absent while the value is null. */
  watched(name: string, help: string, read: () => number | null): Gauge {
    return new Gauge({
      registers: [this.registry],
      name: `statusmesh_${name}`,
      help,
      collect() {
        const value = read();
        if (value === null) this.remove();
        else this.set(value);
      },
    });
  }

  histogram(name: string, help: string, buckets: number[], ...labelNames: string[]): Histogram {
    return new Histogram({ registers: [this.registry], name: `statusmesh_${name}`, help, buckets, labelNames });
  }
}
