// The parts of a page outside its live region that must agree with it: title, badge of open incidents, favicon.

const icon = document.querySelector("link[rel=icon]");
const badges = document.querySelectorAll("[data-badge]");
const marks = document.querySelectorAll(".rail .mark, .top .mark");
let title = document.title;
let tone = icon?.dataset.tone;

function draw(lost) {
  document.title = lost ? `Last known: ${title}` : title;
  if (!icon?.dataset.unknown) return;
  const shown = lost ? "unknown" : tone;
  const href = icon.dataset[shown];
  if (icon.getAttribute("href") !== href) icon.setAttribute("href", href);
  for (const mark of marks) mark.setAttribute("class", `mark ${shown}`);
}

/** Shows what the element with `data-head` says: the page's title, the number of open incidents, the worst state. */
export function showHead(within) {
  const said = within.querySelector("[data-head]")?.dataset;
  if (!said) return draw(false);
  title = said.head;
  tone = said.tone;
  if (said.open !== undefined) {
    const open = Number(said.open);
    for (const badge of badges) {
      badge.hidden = open === 0;
      badge.textContent = open > 99 ? "99+" : open;
      badge.setAttribute("aria-label", `${open} cause${open === 1 ? " needs" : "s need"} you`);
    }
  }
  draw(false);
}

/** Marks title and favicon as the last known ones, until {@link showHead} is called again. */
export function headIsStale() {
  draw(true);
}
