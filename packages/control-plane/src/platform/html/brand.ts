/** `#rrggbb` as three numbers from 0 to 255. */
type Rgb = readonly [number, number, number];

/** Contrast of normal text (WCAG 2.2, 1.4.3). */
const wanted = 4.5;
const black: Rgb = [0, 0, 0];
const white: Rgb = [255, 255, 255];

const parse = (hex: string): Rgb => [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16)) as never as Rgb;
const write = (rgb: Rgb): string => `#${rgb.map((one) => Math.round(one).toString(16).padStart(2, "0")).join("")}`;
const mix = (from: Rgb, to: Rgb, share: number): Rgb =>
  from.map((one, at) => one + (to[at]! - one) * share) as never as Rgb;

/** Relative luminance (WCAG 2.2, definition). */
function luminance(rgb: Rgb): number {
  const [r, g, b] = rgb.map((one) => {
    const share = one / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  }) as never as Rgb;
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** Contrast ratio of two colours `#rrggbb`, 1 to 21. */
export function contrast(a: string, b: string): number {
  const [light, dark] = [luminance(parse(a)), luminance(parse(b))].sort((x, y) => y - x);
  return (light! + 0.05) / (dark! + 0.05);
}

/** The colour, darkened or lightened just as far as text on all of the backgrounds needs. */
export function readable(color: string, backgrounds: readonly string[]): string {
  const towards = luminance(parse(backgrounds[0]!)) > 0.18 ? black : white;
  for (let share = 0; share < 1; share += 0.05) {
    const tried = write(mix(parse(color), towards, share));
    if (backgrounds.every((background) => contrast(tried, background) >= wanted)) return tried;
  }
  return write(towards);
}

/** A sheet that replaces the accent by a brand colour, readable on the backgrounds of each theme. */
export function brandSheet(color: string, light: readonly string[], dark: readonly string[]): string {
  const rules = (backgrounds: readonly string[]) => `{--accent:${readable(color, backgrounds)}}`;
  return (
    `:root{--brand:${color}}:root${rules(light)}:root[data-theme="dark"]${rules(dark)}` +
    `@media (prefers-color-scheme:dark){:root:not([data-theme="light"])${rules(dark)}}`
  );
}
