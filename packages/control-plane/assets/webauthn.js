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

const requestAt = "/api/v1/sessions/passkey/options";

/** The passkeys that the browser offers in its list for the address; it answers one request at a time. */
let offered = null;

/** Proves a passkey to a route: the sign-in, or the confirmation in a session. */
export function prove(path) {
  offered?.abort();
  return ceremony(requestAt, (publicKey) => navigator.credentials.get({ publicKey }), path);
}

/** A challenge counts for five minutes. */
const renewMs = 240_000;

/** Offers passkeys where the browser fills in the address of a sign-in (WebAuthn Level 3, section 5.1.4). */
export async function offer(form) {
  if (!(await PublicKeyCredential.isConditionalMediationAvailable?.())) return;
  offered?.abort();
  const own = (offered = new AbortController());
  const renewal = setTimeout(() => {
    own.abort();
    void offer(form);
  }, renewMs);
  own.signal.addEventListener("abort", () => clearTimeout(renewal));
  let chosen = false;
  const get = async (publicKey) => {
    const credential = await navigator.credentials.get({ publicKey, mediation: "conditional", signal: own.signal });
    chosen = true;
    return credential;
  };
  const { ok, error } = await ceremony(requestAt, get, form.dataset.passkeyProof);
  if (!chosen) return;
  own.abort();
  await answered(form, { ok, error });
}

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
  await answered(form, await whileDisabled(form.querySelector("[type=submit]"), answer));
}

async function answered(form, { ok, error }) {
  if (ok) await leaveFor(form.dataset.next);
  else showError(form, error);
}

export const sendProof = (form) => submit(form, () => prove(form.dataset.passkeyProof));
export const sendNew = (form) => submit(form, () => add(form.elements["/name"].value));

/** Accepts an invitation, then adds the first passkey. Without one the account page asks for a way to sign in. */
export async function joinWithPasskey(form) {
  clearErrors(form);
  const { nameOfBrowser } = await import("./browser-name.js");
  const answer = await whileDisabled(form.querySelector("[type=submit]"), async () => {
    const joined = await call("POST", "/api/v1/invitations/accept", { code: form.elements["/code"].value });
    if (joined.ok && !(await add(nameOfBrowser())).ok) form.dataset.next = "/settings/account#add-passkey";
    return joined;
  });
  await answered(form, answer);
}
