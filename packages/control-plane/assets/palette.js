import { call } from "./api.js";
import { partsOf } from "./body.js";
import { announce, el, openDialog, say, verbOf } from "./dom.js";
import { refresh } from "./live.js";
import { orgFetch } from "./org.js";
import { localTimes } from "./times.js";
import { chooseTheme } from "./toggle.js";

const groups = {
  action: "Actions",
  monitor: "Monitors",
  incident: "Incidents",
  status_page: "Status pages",
  channel: "Channels",
  page: "Go to",
};
/** What the page offers to do now, and what every page does: title, further words, what happens. */
function actionsOf() {
  const offered = [...document.querySelectorAll("main [data-hotkey], main [data-check-now], main .menu [data-send]")]
    .filter((button) => !button.disabled)
    .map((button) => [
      verbOf(button),
      document.querySelector("h1 .name-text")?.textContent.trim() ?? "",
      () => button.click(),
    ]);
  const themes = ["system", "light", "dark"].map((name) => [`Theme: ${name}`, "", () => chooseTheme(name)]);
  const adds = [
    ["Add monitor", "/monitors/new"],
    ["Report an incident", "/incidents/new"],
    ["Add channel", "/channels/new"],
  ].map(([title, href]) => [title, "", () => location.assign(href)]);
  const known = new Set();
  return [...offered, ...adds, ...themes].filter(([title]) => title !== "" && !known.has(title) && known.add(title));
}

/** The actions that have every word; without words those of the page alone. */
function actionsFor(words) {
  const wanted = partsOf(words.toLowerCase(), /\s+/);
  return actionsOf()
    .filter(([title, detail]) => wanted.every((word) => `${title} ${detail}`.toLowerCase().includes(word)))
    .map(([title, detail, act]) => ({
      type: "action",
      title,
      detail: detail || null,
      at: null,
      state: null,
      href: "",
      act,
    }));
}

/** Verbs that act on what the words after them find: type of the result, request, and the outcome. */
const verbs = {
  pause: ["monitor", (id) => call("PATCH", `/api/v1/targets/${id}`, { enabled: false }), "is paused."],
  resume: ["monitor", (id) => call("PATCH", `/api/v1/targets/${id}`, { enabled: true }), "is resumed."],
  acknowledge: ["incident", (id) => call("POST", `/api/v1/incidents/${id}/acknowledge`), "is acknowledged."],
};

/** `pause checkout` in its parts; the verb is null where the words begin with none. */
function commandOf(words) {
  const [, name = "", rest = ""] = /^(\w+)\s+(\S.*)$/.exec(words) ?? [];
  const verb = document.body.dataset.role === "viewer" ? undefined : verbs[name.toLowerCase()];
  return verb === undefined ? { verb: null, wanted: words } : { verb, name: name.toLowerCase(), wanted: rest };
}

const verbActions = ({ verb, name }, found) =>
  found
    .filter(({ type, state }) => type === verb[0] && (type !== "incident" || state === "open"))
    .map((item) => ({
      ...item,
      type: "action",
      title: `${name[0].toUpperCase()}${name.slice(1)} ${item.title}`,
      act: async () => {
        const answer = await verb[1](item.href.split("/").at(-1));
        if (!answer.ok) return say(answer.error.message, "down");
        say(`${item.title} ${verb[2]}`);
        await refresh(true);
      },
    }));

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
    placeholder: "Search or act: pause checkout, acknowledge db",
  });
  const list = el("div", { id: "palette-list", role: "listbox", "aria-label": "Results" });
  const note = el("p", { class: "muted box", hidden: "" });
  const close = el("button", { class: "btn", type: "button" }, "Close");
  const dialog = openDialog(
    { id: "palette", "aria-label": "Search" },
    el("div", { class: "palette-head" }, input, close),
    list,
    note,
  );

  let options = [];
  const acts = new WeakMap();
  let chosen = -1;
  let waiting;
  let running;
  /** The words of the shown results. */
  let shown = "";
  /** Enter was pressed before there was a result of the words. */
  let entered = false;

  const choose = (index) => {
    options[chosen]?.setAttribute("aria-selected", "false");
    chosen = index;
    const option = options[chosen];
    if (!option) return input.removeAttribute("aria-activedescendant");
    option.setAttribute("aria-selected", "true");
    option.scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", option.id);
  };
  const show = (items, words, complete) => {
    const kept = words === shown ? chosen : 0;
    shown = words;
    options = [];
    list.replaceChildren(
      ...Object.entries(groups).flatMap(([type, title]) => {
        const own = items.filter((item) => item.type === type);
        if (own.length === 0) return [];
        const group = el("div", { role: "group", "aria-labelledby": `palette-${type}` });
        group.append(el("div", { id: `palette-${type}`, class: "palette-group", role: "presentation" }, title));
        for (const item of own) {
          const option = optionOf(item, options.length);
          if (item.act) acts.set(option, item.act);
          options.push(option);
          group.append(option);
        }
        return [group];
      }),
    );
    localTimes(list);
    list.hidden = options.length === 0;
    input.setAttribute("aria-expanded", String(options.length > 0));
    note.hidden = options.length > 0 || !complete;
    note.textContent = options.length > 0 ? "" : `No matches for ${words}.`;
    if (words !== "" && complete) announce(options.length > 0 ? `${options.length} results` : note.textContent);
    choose(options.length > 0 ? Math.max(kept, 0) : -1);
  };
  const most = (words) => (words === "" ? 8 : 20);
  const search = async () => {
    running?.abort();
    const own = (running = new AbortController());
    const words = input.value.trim();
    try {
      const command = commandOf(words);
      const reply = await orgFetch(`/api/v1/search?${new URLSearchParams({ q: command.wanted, per_type: "8" })}`, {
        signal: own.signal,
      });
      if (reply.status === 401)
        return location.assign(`/sign-in?next=${encodeURIComponent(location.pathname + location.search)}`);
      if (!reply.ok) throw new Error(String(reply.status));
      const all = (await reply.json()).items;
      const actions = [...actionsFor(words), ...(command.verb === null ? [] : verbActions(command, all))];
      const titles = new Set(actions.map(({ title }) => title));
      const found = all.filter(({ type, title }) => type !== "page" || !titles.has(title));
      show([...actions.slice(0, most(words)), ...found], words, true);
      if (entered) go(options[chosen]);
    } catch {
      if (own.signal.aborted) return;
      note.hidden = false;
      note.textContent = "The search does not respond. Check the connection and try again.";
      announce(note.textContent);
    }
  };
  const go = (option) => {
    if (!option) return;
    const act = acts.get(option);
    if (!act) return location.assign(option.dataset.href);
    dialog.close();
    act();
  };

  input.addEventListener("input", () => {
    clearTimeout(waiting);
    running?.abort();
    entered = false;
    // At once, so that Enter never acts on results of earlier words.
    const words = input.value.trim();
    show(actionsFor(words).slice(0, most(words)), words, false);
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
      entered = options.length === 0;
      go(options[chosen]);
    }
  });
  list.addEventListener("click", (event) => go(event.target.closest("[role=option]")));
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  dialog.addEventListener("close", () => {
    clearTimeout(waiting);
    running?.abort();
  });
  list.hidden = true;
  input.focus();
  void search();
}

function optionOf({ title, detail, at, state, href }, index) {
  return el(
    "div",
    { role: "option", id: `palette-${index}`, "aria-selected": "false", "data-href": href },
    el("span", { class: "palette-title" }, title),
    detail === null ? null : el("span", { class: "muted xs clip" }, detail),
    at === null ? null : el("time", { class: "muted xs nowrap", datetime: at, "data-as": "clock" }),
    state === null ? null : el("span", { class: `state xs ${state === "open" ? "down" : state}` }, state),
  );
}
