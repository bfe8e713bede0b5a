import { el, openDialog, say } from "./dom.js";
import { orgFetch } from "./org.js";

/**
 * Opens the form of a new channel in a dialog. The added channel becomes a ticked choice of the list before the link.
 * Without an answer the link leads to the page of the form.
 */
export async function addChannel(link) {
  const reply = await orgFetch(`${link.pathname}?fragment=1`, { headers: { Accept: "text/html" } }).catch(() => null);
  if (!reply?.ok || reply.redirected) return location.assign(link.href);
  const content = el("div");
  content.innerHTML = await reply.text();
  const dialog = openDialog({ class: "wide", "aria-labelledby": "add-channel-title" }, ...content.childNodes);
  dialog.addEventListener("added", (event) => {
    const kind = dialog.querySelector("[name='/config/type']:checked").ariaLabel;
    dialog.close();
    tick(link, event.detail, kind);
  });
  dialog.addEventListener("click", (event) => event.target.closest("[data-close]") && dialog.close());
}

function tick(link, { id, name }, kind) {
  const list = document.getElementById(link.dataset.addChannel);
  const box = el("input", { type: "checkbox", name: "/alerts", "data-as": "channel", value: id });
  box.checked = true;
  const label = el("strong", {}, name);
  list.append(el("label", { class: "opt" }, box, label, el("span", { class: "sub" }, `${kind}, never tested`)));
  box.focus();
  say(`Channel ${name} added. Save the monitor to use it.`);
}
