// The viewer resolves a document that says 3.1 in 20 s of CPU time, the same one in 2 s where it says 3.0, and shows
// both alike. What cannot be fetched is left to it: it says so.

const address = "/api/openapi.json";
const viewer = document.querySelector("rapi-doc");
const menu = document.getElementById("operation");

/** Colours of the viewer, which takes them as attributes and not from the style of the page. */
const dark = {
  theme: "dark",
  "bg-color": "#14171c",
  "text-color": "#eceff3",
  "primary-color": "#8aabff",
  "nav-bg-color": "#0c0e12",
  "nav-text-color": "#eceff3",
  "nav-hover-text-color": "#eceff3",
};

/** The theme that was chosen in the console, else that of the system. */
function isDark() {
  const { theme } = document.documentElement.dataset;
  return theme === undefined ? matchMedia("(prefers-color-scheme: dark)").matches : theme === "dark";
}

/** On narrow screens the viewer hides its list of operations: a menu takes its place. */
function fillMenu({ paths }) {
  const groups = new Map();
  for (const [path, operations] of Object.entries(paths))
    for (const [method, { tags = ["Other"], summary }] of Object.entries(operations)) {
      const [tag] = tags;
      const group = groups.get(tag) ?? document.createElement("optgroup");
      group.label = tag;
      group.append(new Option(summary, `${method}-${path}`));
      groups.set(tag, group);
    }
  menu.append(...groups.values());
  const follow = () => (menu.value = decodeURIComponent(location.hash.slice(1)));
  menu.addEventListener("change", () => viewer.scrollToPath(menu.value));
  addEventListener("hashchange", follow);
  follow();
}

const watched = new WeakSet();

/** Names fields and the list of operations, which the viewer leaves without a label, now and after each change. */
function nameFields(root) {
  if (root === null || watched.has(root)) return;
  watched.add(root);
  const name = () => {
    for (const field of root.querySelectorAll(":is(input, textarea, select):not([aria-label])"))
      if (field.labels?.length === 0) field.setAttribute("aria-label", field.dataset.pname || "Request body");
    for (const request of root.querySelectorAll("api-request")) nameFields(request.shadowRoot);
    root.querySelector("nav")?.setAttribute("aria-label", "Operations");
  };
  new MutationObserver(name).observe(root, { childList: true, subtree: true });
  name();
}

async function documentOrAddress() {
  const response = await fetch(address);
  if (!response.ok) return address;
  const found = await response.json();
  fillMenu(found);
  // The viewer shows them in a line that a narrow screen cuts at its left.
  const { contact: _, license: __, ...info } = found.info;
  return { ...found, info, openapi: "3.0.3" };
}

if (isDark()) for (const [name, value] of Object.entries(dark)) viewer.setAttribute(name, value);
await customElements.whenDefined("rapi-doc");
nameFields(viewer.shadowRoot);
viewer.loadSpec(await documentOrAddress().catch(() => address));
