/** Units of time, milliseconds. */
export const secondMs = 1000;
export const minuteMs = 60 * secondMs;
export const hourMs = 60 * minuteMs;
export const dayMs = 24 * hourMs;

const units = [
  [dayMs, "d"],
  [hourMs, "h"],
  [minuteMs, "min"],
  [secondMs, "s"],
  [1, "ms"],
] as const;

/** Milliseconds in the largest unit that they are a whole number of: `1 d`, `90 min`. */
export function inUnits(ms: number): string {
  const [size, name] = units.find(([unit]) => ms % unit === 0)!;
  return `${ms / size} ${name}`;
}

/** The outcome of the promise, or an error after `ms`. The work itself continues, and its later failure is ignored. */
export async function within<T>(ms: number, work: Promise<T>): Promise<T> {
  work.catch(() => {});
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${ms} ms`)), ms);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
