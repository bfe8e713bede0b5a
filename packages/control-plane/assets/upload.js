import { call } from "./api.js";

// Images of a form. Each is sent by a request of its own, after the other fields are stored.

const images = (form) => [...form.querySelectorAll("[data-image]")];
const fileOf = (image) => image.querySelector("[type=file]");
const bytes = (count) => `${(count / 1_048_576).toFixed(1)} MiB`;

/** What is wrong with the chosen files, before anything is sent. */
export const imageFaults = (form) =>
  images(form).flatMap((image) => {
    const control = fileOf(image);
    const { size = 0 } = control.files[0] ?? {};
    const limit = Number(control.dataset.limit);
    if (size <= limit) return [];
    return [{ control, message: `The image has ${bytes(size)}. Up to ${bytes(limit)} are accepted.` }];
  });

/** Stores chosen files and removes what was ticked, of the thing with that id. Returns the fault that stopped it. */
export async function sendImages(form, id) {
  for (const image of images(form)) {
    const control = fileOf(image);
    const path = image.dataset.image.replace("{id}", id);
    const [file] = control.files;
    if (file === undefined && !image.querySelector(":checked")) continue;
    const answer = await (file === undefined ? call("DELETE", path) : call("PUT", path, file));
    if (!answer.ok)
      return { control, message: `The other fields are saved, this image is not. ${answer.error.message}` };
  }
  return null;
}

/** Shows a chosen file in place of the stored one. */
export function imagePreviews() {
  document.addEventListener("change", ({ target }) => {
    const image = target.closest?.("[data-image]");
    if (!image || target.type !== "file" || target.files.length === 0) return;
    const reader = new FileReader();
    reader.addEventListener("load", () => {
      const preview = image.querySelector("img");
      preview.src = reader.result;
      preview.parentElement.hidden = false;
    });
    reader.readAsDataURL(target.files[0]);
  });
}
