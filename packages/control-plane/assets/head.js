// The parts of a page outside its live region that must agree with it: title, badge of open incidents, favicon.

const icon = document.querySelector("link[rel=icon]");
const badge = document.querySelector("[data-badge]");
let title = document.title;
let alerting = icon?.dataset.now === "alert";

function draw(lost) {
  document.title = lost ? `Last known: ${title}` : title;
  if (!icon?.dataset.calm) return;
  const href = lost ? icon.dataset.unknown : alerting ? icon.dataset.alert : icon.dataset.calm;
  if (icon.getAttribute("href") !== href) icon.setAttribute("href", href);
}

/** Shows what the element with `data-head` says: the page's title, the number of open incidents, calm or alert. */
export function showHead(within) {
  const said = within.querySelector("[data-head]")?.dataset;
  if (!said) return draw(false);
  title = said.head;
  alerting = said.tone === "alert";
  if (badge && said.open !== undefined) {
    const open = Number(said.open);
    badge.hidden = open === 0;
    badge.textContent = open > 99 ? "99+" : open;
    badge.setAttribute("aria-label", `${open} open incident${open === 1 ? "" : "s"}`);
  }
  draw(false);
}

/** Marks title and favicon as the last known ones, until {@link showHead} is called again. */
export function headIsStale() {
  draw(true);
}
