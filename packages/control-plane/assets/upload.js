import { split } from "./api.js";
import { say } from "./dom.js";
import { orgFetch, stay } from "./org.js";

/** Sends the file of a form as it is, and shows the page again. */
async function upload(form) {
  const [method, path] = split(form.dataset.upload);
  const button = form.querySelector("[type=submit]");
  button.disabled = true;
  try {
    const body = form.querySelector("[type=file]").files[0];
    const reply = await orgFetch(path, { method, body, headers: { "Content-Type": "application/octet-stream" } });
    if (reply.ok) {
      await stay();
      return location.reload();
    }
    say((await reply.json()).error.message, "down");
  } catch {
    say("StatusMesh does not answer. Check the connection and try again.", "down");
  } finally {
    button.disabled = false;
  }
}

/** Makes forms with `data-upload` work. */
export function uploads() {
  document.addEventListener("submit", (event) => {
    if (!event.target.matches("[data-upload]")) return;
    event.preventDefault();
    void upload(event.target);
  });
}
