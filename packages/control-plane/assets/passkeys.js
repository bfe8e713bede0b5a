import { onSubmit } from "./dom.js";

/** Shows the forms of passkeys in a secure context at the address where they work, else the text that says where. */
export function passkeys() {
  for (const box of document.querySelectorAll("[data-passkeys]")) {
    const works = isSecureContext && "PublicKeyCredential" in window && location.origin === box.dataset.passkeys;
    for (const part of box.querySelectorAll("[data-state]"))
      part.hidden = part.dataset.state !== (works ? "ready" : "elsewhere");
    const name = box.querySelector("[name='/name']");
    // The pages of sign-in and invitation have no such field.
    if (name?.value === "") void import("./browser-name.js").then((module) => (name.value ||= module.nameOfBrowser()));
  }
  const proof = document.querySelector("[data-passkey-proof]");
  // The first key or touch loads what most visits do not need.
  const offer = () => void import("./webauthn.js").then((module) => module.offer(proof));
  if (proof?.hidden === false)
    for (const name of ["pointerdown", "keydown"])
      document.querySelector("[autocomplete~=webauthn]")?.addEventListener(name, offer, { once: true });
  onSubmit("[data-passkey-join]", (form) => import("./webauthn.js").then((module) => module.joinWithPasskey(form)));
  onSubmit("[data-passkey-proof]", (form) => import("./webauthn.js").then((module) => module.sendProof(form)));
  onSubmit("[data-passkey-add]", (form) => import("./webauthn.js").then((module) => module.sendNew(form)));
}
