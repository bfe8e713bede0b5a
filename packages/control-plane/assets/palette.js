import { announce, el } from "./dom.js";
import { orgFetch } from "./org.js";

const groups = {
  monitor: "Monitors",
  incident: "Incidents",
  status_page: "Status pages",
  channel: "Channels",
  page: "Go to",
};
/** Pause after a key before a search is sent, ms. */
const pauseMs = 120;

/**
 * Opens the search: a combobox with a listbox (WAI-ARIA Authoring Practices, "Combobox"). The focus stays in the field;
 * `aria-activedescendant` names the chosen result.
 */
export function openPalette() {
  if (document.getElementById("palette")) return;
  const input = el("input", {
    type: "text",
    role: "combobox",
    "aria-label": "Search everything",
    "aria-expanded": "false",
    "aria-controls": "palette-list",
    "aria-autocomplete": "list",
    autocomplete: "off",
    autocapitalize: "off",
    spellcheck: "false",
    maxlength: "200",
    placeholder: "Search monitors, incidents, pages, settings",
  });
  const list = el("div", { id: "palette-list", role: "listbox", "aria-label": "Results" });
  const note = el("p", { class: "muted box", hidden: "" });
  const close = el("button", { class: "btn", type: "button" }, "Close");
  const dialog = el(
    "dialog",
    { id: "palette", "aria-label": "Search" },
    el("div", { class: "palette-head" }, input, close),
    list,
    note,
  );
  document.body.append(dialog);

  let options = [];
  let chosen = -1;
  let waiting;
  let running;

  const choose = (index) => {
    options[chosen]?.setAttribute("aria-selected", "false");
    chosen = index;
    const option = options[chosen];
    if (!option) return input.removeAttribute("aria-activedescendant");
    option.setAttribute("aria-selected", "true");
    option.scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", option.id);
  };
  const show = (items, words) => {
    options = [];
    list.replaceChildren(
      ...Object.entries(groups).flatMap(([type, title]) => {
        const own = items.filter((item) => item.type === type);
        if (own.length === 0) return [];
        const group = el("div", { role: "group", "aria-labelledby": `palette-${type}` });
        group.append(el("div", { id: `palette-${type}`, class: "palette-group", role: "presentation" }, title));
        for (const item of own) {
          const option = optionOf(item, options.length);
          options.push(option);
          group.append(option);
        }
        return [group];
      }),
    );
    list.hidden = options.length === 0;
    input.setAttribute("aria-expanded", String(options.length > 0));
    note.hidden = options.length > 0;
    note.textContent = options.length > 0 ? "" : `No matches for ${words}.`;
    if (words !== "") announce(options.length > 0 ? `${options.length} results` : note.textContent);
    choose(options.length > 0 ? 0 : -1);
  };
  const search = async () => {
    running?.abort();
    const own = (running = new AbortController());
    const words = input.value.trim();
    try {
      const reply = await orgFetch(`/api/v1/search?${new URLSearchParams({ q: words, per_type: "8" })}`, {
        signal: own.signal,
      });
      if (reply.status === 401)
        return location.assign(`/sign-in?next=${encodeURIComponent(location.pathname + location.search)}`);
      if (!reply.ok) throw new Error(String(reply.status));
      show((await reply.json()).items, words);
    } catch {
      if (own.signal.aborted) return;
      note.hidden = false;
      note.textContent = "The search does not answer. Check the connection and try again.";
      announce(note.textContent);
    }
  };
  const go = (option) => option && location.assign(option.dataset.href);

  input.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => void search(), pauseMs);
  });
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[event.key];
    if (step !== undefined && options.length > 0) {
      event.preventDefault();
      const wraps = Math.abs(step) === 1;
      const to = chosen + step;
      choose(wraps ? (to + options.length) % options.length : Math.max(0, Math.min(options.length - 1, to)));
    } else if (event.key === "Enter") {
      event.preventDefault();
      go(options[chosen]);
    }
  });
  list.addEventListener("click", (event) => go(event.target.closest("[role=option]")));
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  dialog.addEventListener("close", () => {
    clearTimeout(waiting);
    running?.abort();
    dialog.remove();
  });
  list.hidden = true;
  dialog.showModal();
  input.focus();
  void search();
}

function optionOf({ title, detail, state, href }, index) {
  return el(
    "div",
    { role: "option", id: `palette-${index}`, "aria-selected": "false", "data-href": href },
    el("span", { class: "palette-title" }, title),
    detail === null ? null : el("span", { class: "muted xs clip" }, detail),
    state === null ? null : el("span", { class: `state xs ${state === "open" ? "down" : state}` }, state),
  );
}
