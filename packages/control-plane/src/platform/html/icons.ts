import { Markup } from "./markup.ts";

const check = '<path d="m4.2 7.2 2 2 3.6-4.1" stroke="var(--panel)" stroke-width="1.6" fill="none"/>';

/**
 * Drawings on a 14 by 14 grid, in the colour of the text around them. One shape per state: colour is never the only
 * sign.
 */
const drawings = {
  up: `<circle cx="7" cy="7" r="6" fill="currentColor"/>${check}`,
  degraded:
    '<path d="M7 1 13.5 12.5H.5Z" fill="currentColor"/><path d="M7 5v3.6M7 10v1.2" stroke="var(--panel)" ' +
    'stroke-width="1.5"/>',
  down:
    '<path d="M4.2 1h5.6L13 4.2v5.6L9.8 13H4.2L1 9.8V4.2Z" fill="currentColor"/><path d="m4.8 4.8 4.4 ' +
    '4.4m0-4.4-4.4 4.4" stroke="var(--panel)" stroke-width="1.5"/>',
  error:
    '<circle cx="7" cy="7" r="6" fill="currentColor"/><path d="M7 3.5v4M7 9.2v1.4" stroke="var(--panel)" ' +
    'stroke-width="1.6"/>',
  unknown:
    '<circle cx="7" cy="7" r="5.5" fill="none" stroke="currentColor" stroke-width="1.5" stroke-dasharray="2.5 2"/>',
  maintenance:
    '<rect x="1" y="1" width="12" height="12" rx="3" fill="currentColor"/><path d="M4.5 ' +
    '4v6m2.5-6v6m2.5-6v6" stroke="var(--panel)" stroke-width="1.3"/>',
  paused:
    '<circle cx="7" cy="7" r="5.6" fill="none" stroke="currentColor" stroke-width="1.3"/><path d="M5.6 ' +
    '4.8v4.4m2.8-4.4v4.4" stroke="currentColor" stroke-width="1.5"/>',
  monitors:
    '<path d="M.8 7.5h2.7l2-5 3 9 2-4h2.7" fill="none" stroke="currentColor" stroke-width="1.4" ' +
    'stroke-linejoin="round"/>',
  incidents:
    '<path d="M7 1.4 13 12.2H1Z" fill="none" stroke="currentColor" stroke-width="1.3" ' +
    'stroke-linejoin="round"/><path d="M7 5.4v3M7 9.8v1" stroke="currentColor" stroke-width="1.3"/>',
  planned:
    '<rect x="1.6" y="2.6" width="10.8" height="9.8" rx="1.5" fill="none" stroke="currentColor" ' +
    'stroke-width="1.3"/><path d="M1.8 5.6h10.4M4.4 1v3M9.6 1v3" stroke="currentColor" stroke-width="1.3"/>' +
    '<path d="M7 7.2v2l1.4.9" fill="none" stroke="currentColor" stroke-width="1.2"/>',
  channels:
    '<path d="M2.8 9.6c.8-.8 1-1.7 1-3.2a3.2 3.2 0 0 1 6.4 0c0 1.5.2 2.4 1 3.2ZM5.8 11.4a1.3 1.3 0 0 0 ' +
    '2.4 0" fill="none" stroke="currentColor" stroke-width="1.3" stroke-linejoin="round"/>',
  pages:
    '<rect x="1.6" y="2" width="10.8" height="10" rx="1.5" fill="none" stroke="currentColor" ' +
    'stroke-width="1.3"/><path d="M1.8 5h10.4M4.3 7.6h5.4M4.3 9.8h3" stroke="currentColor" ' +
    'stroke-width="1.2"/>',
  settings:
    '<circle cx="7" cy="7" r="2" fill="none" stroke="currentColor" stroke-width="1.3"/><path d="M7 ' +
    '.9v2.1M7 11v2.1M.9 7H3M11 7h2.1M2.7 2.7l1.5 1.5M9.8 9.8l1.5 1.5M2.7 11.3l1.5-1.5M9.8 4.2l1.5-1.5" ' +
    'stroke="currentColor" stroke-width="1.3"/>',
  search:
    '<circle cx="6" cy="6" r="4.2" fill="none" stroke="currentColor" stroke-width="1.4"/><path d="m9.2 9.2 ' +
    '3.8 3.8" stroke="currentColor" stroke-width="1.4"/>',
  theme:
    '<circle cx="7" cy="7" r="5.5" fill="none" stroke="currentColor" stroke-width="1.3"/><path d="M7 ' +
    '1.5a5.5 5.5 0 0 1 0 11Z" fill="currentColor"/>',
} as const;

export type Icon = keyof typeof drawings;

/** An icon as inline SVG. It is decoration: the word beside it says the same. */
export function icon(name: Icon): Markup {
  return new Markup(`<svg class="icon" viewBox="0 0 14 14" aria-hidden="true">${drawings[name]}</svg>`);
}

/** True for a name that has a drawing. */
export const isIcon = (name: string): name is Icon => Object.hasOwn(drawings, name);
