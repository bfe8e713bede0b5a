const root = document.documentElement;
const dark = () =>
  root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;

/** Lets `[data-toggle-theme]` buttons switch between light and dark, and remembers the choice. */
export function toggles() {
  for (const button of document.querySelectorAll("[data-toggle-theme]")) {
    const show = () => button.setAttribute("aria-pressed", String(dark()));
    show();
    button.addEventListener("click", () => {
      root.dataset.theme = dark() ? "light" : "dark";
      show();
      try {
        localStorage.setItem("theme", root.dataset.theme);
      } catch {
        // Storage is off: the choice lasts as long as the page.
      }
    });
  }
}
