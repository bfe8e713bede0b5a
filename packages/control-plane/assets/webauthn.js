import { call } from "./api.js";
import { bytesOf, textOf } from "./base64url.js";
import { whileDisabled } from "./dom.js";
import { clearErrors, showError } from "./form.js";
import { leaveFor } from "./leave.js";

/** Names of the binary fields that the API reads of a response. */
const fields = ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"];

/** The credential as JSON (WebAuthn Level 3, section 5.1.8), also where the browser cannot write it so. */
const jsonOf = ({ id, rawId, type, response }) => ({
  id,
  rawId: textOf(rawId),
  type,
  response: Object.fromEntries(fields.filter((name) => response[name]).map((name) => [name, textOf(response[name])])),
});

/** Why the browser has given no passkey, by the name of its error. */
const reasons = {
  NotAllowedError: "No passkey was used: the request was cancelled, or took too long. Try again.",
  InvalidStateError: "This device has a passkey of your account already.",
  SecurityError: "Passkeys do not work at this address. Open the address in server.public_url.",
};

/** Asks for options, has the browser answer them, and sends the response: `{ok, data}`, or `{ok: false, error}`. */
async function ceremony(optionsAt, perform, path, more) {
  const options = await call("POST", optionsAt);
  if (!options.ok) return options;
  let credential;
  try {
    credential = await perform({ ...options.data, challenge: bytesOf(options.data.challenge) });
  } catch ({ name, message }) {
    return { ok: false, error: { message: reasons[name] ?? message, field: null } };
  }
  return await call("POST", path, { ...more, response: jsonOf(credential) });
}

/** Proves a passkey to a route: the sign-in, or the confirmation in a session. */
export const prove = (path) =>
  ceremony("/api/v1/sessions/passkey/options", (publicKey) => navigator.credentials.get({ publicKey }), path);

const add = (name) =>
  ceremony(
    "/api/v1/me/passkeys/options",
    (options) => {
      const user = { ...options.user, id: bytesOf(options.user.id) };
      const excludeCredentials = options.excludeCredentials.map((one) => ({ ...one, id: bytesOf(one.id) }));
      return navigator.credentials.create({ publicKey: { ...options, user, excludeCredentials } });
    },
    "/api/v1/me/passkeys",
    { name },
  );

async function submit(form, answer) {
  clearErrors(form);
  const { ok, error } = await whileDisabled(form.querySelector("[type=submit]"), answer);
  if (ok) await leaveFor(form.dataset.next);
  else showError(form, error);
}

export const sendProof = (form) => submit(form, () => prove(form.dataset.passkeyProof));
export const sendNew = (form) => submit(form, () => add(form.elements["/name"].value));
