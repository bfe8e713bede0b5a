// Runs before anything is drawn, so that a page does not flash in the other theme. The toggle is in toggle.js.
document.documentElement.classList.add("js");
try {
  const theme = localStorage.getItem("theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage is off: the system's choice holds.
}
