const root = document.documentElement;

const stored = () => {
  try {
    return localStorage.getItem("theme");
  } catch {
    return null;
  }
};

/** Shows the page in a theme, `light`, `dark` or `system`, and remembers the choice. */
export function chooseTheme(name) {
  if (name === "system") delete root.dataset.theme;
  else root.dataset.theme = name;
  for (const choice of document.querySelectorAll("[data-themes] input")) choice.checked = choice.value === name;
  try {
    if (name === "system") localStorage.removeItem("theme");
    else localStorage.setItem("theme", name);
  } catch {
    // Storage is off: the choice lasts as long as the page.
  }
}

/** Lets the switches of the theme work, and closes menus that a click or Escape leaves. */
export function toggles() {
  const now = stored() ?? root.dataset.theme ?? "system";
  for (const choice of document.querySelectorAll("[data-themes] input")) choice.checked = choice.value === now;
  document.addEventListener("change", (event) => {
    if (event.target.closest("[data-themes]")) chooseTheme(event.target.value);
  });
  const menus = ".menu[open], .popup[open], .switcher[open], .who details[open], .tabs details[open]";
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll(menus))
      if (!menu.contains(event.target) || event.target.closest(".pop :is(a, button)")) menu.open = false;
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const menu of document.querySelectorAll(menus)) {
      menu.open = false;
      if (menu.contains(document.activeElement)) menu.querySelector("summary").focus();
    }
  });
}
