// The slug of a new status page follows its name until somebody edits it.

const slugOf = (name) =>
  name
    .normalize("NFKD")
    .replaceAll(/\p{M}/gu, "")
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replace(/^[^a-z]+/, "")
    .slice(0, 30)
    .replace(/-$/, "");

export function slugs() {
  const form = document.querySelector("form[data-slug]");
  const [name, slug] = [form.elements["/name"], form.elements["/slug"]];
  let suggested = slug.value;
  name.addEventListener("input", () => {
    if (slug.value !== suggested) return;
    slug.value = suggested = slugOf(name.value);
  });
}
