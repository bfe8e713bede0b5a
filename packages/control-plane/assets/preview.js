// A preview of what a form publishes, and a draft of its text that survives a reload.

const textOf = (control) =>
  control instanceof HTMLSelectElement ? control.selectedOptions[0].textContent : control.value.trim();

function preview(form) {
  const places = [...document.querySelectorAll("[data-preview]")];
  const empty = new Map(places.map((place) => [place, [...place.childNodes]]));
  const show = () => {
    for (const place of places) {
      const control = form.elements[place.dataset.preview];
      const text = control ? textOf(control) : "";
      if (text) place.textContent = text;
      else place.replaceChildren(...empty.get(place));
    }
  };
  form.addEventListener("input", show);
  form.addEventListener("change", show);
  show();
}

function draft(form) {
  const key = `draft:${form.dataset.draft}`;
  const texts = [...form.elements].filter((control) => control.matches("textarea, input[type=text]"));
  let stored = {};
  try {
    stored = JSON.parse(sessionStorage.getItem(key) ?? "{}");
  } catch {
    // A draft that cannot be read is none.
  }
  for (const control of texts) if (typeof stored[control.name] === "string") control.value = stored[control.name];
  form.addEventListener("input", () =>
    sessionStorage.setItem(key, JSON.stringify(Object.fromEntries(texts.map(({ name, value }) => [name, value])))),
  );
  const drop = () => sessionStorage.removeItem(key);
  form.addEventListener("submit", drop);
  form.querySelector("[data-discard]")?.addEventListener("click", drop);
}

/** One form for public updates and internal notes: the audience decides where it is sent. */
function audience(form) {
  const update = form.dataset.api;
  const parts = [...form.querySelectorAll("[data-public]")];
  form.addEventListener("change", (event) => {
    if (event.target.name !== "audience") return;
    const internal = event.target.value === "internal";
    form.dataset.api = internal ? form.dataset.notes : update;
    for (const part of parts) {
      part.hidden = internal;
      for (const control of part.querySelectorAll("select, input")) control.disabled = internal;
    }
  });
}

/** A chosen template fills the fields that it names; the last one gets the focus. */
function template(select) {
  select.addEventListener("change", () => {
    const fill = Object.entries(JSON.parse(select.selectedOptions[0].dataset.fill ?? "{}"));
    for (const [name, value] of fill) {
      const named = select.form.elements[name];
      if (value === null) continue;
      named.value = value;
      const control = named instanceof RadioNodeList ? [...named].find((own) => own.checked) : named;
      control.dispatchEvent(new Event("input", { bubbles: true }));
      control.focus();
    }
  });
}

/** Makes previews, templates and drafts of the page work. */
export function previews() {
  for (const form of document.querySelectorAll("form[data-notes]")) audience(form);
  for (const select of document.querySelectorAll("[data-template]")) template(select);
  for (const form of document.querySelectorAll("form[data-draft]")) draft(form);
  for (const form of document.querySelectorAll("form[data-preview-form]")) preview(form);
}
