import Type, { type Static, type TProperties } from "typebox";
import { Line } from "@statusmesh/shared/text";
import { Closed, described, Id, nullable, PageOf, Shape, Text, Timestamp } from "../../../platform/http/wire.ts";

/** Binary data as browsers write it in JSON (WebAuthn Level 3, section 5.1). */
const Bytes = (description: string, maxLength: number, example = "AAECAwQFBgcICQ") =>
  Type.String({
    minLength: 1,
    maxLength,
    pattern: "^[A-Za-z0-9_-]+$",
    expects: "Send base64url without padding, as the browser returned it",
    description: `${description}, base64url`,
    examples: [example],
  });

/** A credential id has at most 1,023 bytes. */
const credentialId = Bytes("Id of the credential", 1364);

/** What `PublicKeyCredential.toJSON()` returns. Fields that nothing reads, such as `id`, are accepted. */
const credentialJson = <P extends TProperties>(title: string, description: string, response: P) =>
  Type.Object(
    {
      rawId: credentialId,
      type: Type.Literal("public-key", { description: "Kind of the credential", examples: ["public-key"] }),
      response: Type.Object(response, { description: "The response of the authenticator" }),
    },
    { title, description },
  );

const clientDataJSON = Bytes("What the browser signed: challenge, origin and type", 4096);

const RegistrationResponse = credentialJson(
  "RegistrationResponse",
  "The response of navigator.credentials.create, as JSON",
  { clientDataJSON, attestationObject: Bytes("The new credential", 16_000) },
);

export const AuthenticationResponse = credentialJson(
  "AuthenticationResponse",
  "The response of navigator.credentials.get, as JSON",
  {
    clientDataJSON,
    authenticatorData: Bytes("Host, flags and counter", 4096),
    signature: Bytes("The signature", 1024),
    userHandle: Type.Optional(nullable(Bytes("Id of the account", 128))),
  },
);
export type AuthenticationResponse = Static<typeof AuthenticationResponse>;

const name = Line({
  maxLength: 100,
  emptyCode: "EMPTY_NAME",
  description: "What its owner calls it, 1 to 100 characters",
  examples: ["Laptop"],
});

export const PasskeyCreate = Shape("PasskeyCreate", "A new passkey of the caller", {
  name,
  response: RegistrationResponse,
});
export type PasskeyCreate = Static<typeof PasskeyCreate>;

export const PasskeyChange = Shape("PasskeyChange", "A new name", { name });

export const PasskeySignIn = Shape("PasskeySignIn", "Proof of identity: the response of a passkey", {
  response: AuthenticationResponse,
});

export const Passkey = Shape("Passkey", "A passkey of the caller", {
  id: Id,
  name,
  rp_id: Text("The host that it works at", "status.example.org"),
  created_at: Timestamp,
  last_used_at: nullable(described(Timestamp, "Null: not used since it was added")),
  suspended_at: nullable(
    described(Timestamp, "It signs nobody in since then: its counter went back, so it may have been copied"),
  ),
});
export type Passkey = Static<typeof Passkey>;
export const PasskeyPage = PageOf(Passkey);

const challenge = Bytes("Counts once, for 5 minutes, in this browser", 200);
const timeout = Type.Integer({ description: "Milliseconds", examples: [300_000] });
const userVerification = Type.Literal("required", { description: "Always required", examples: ["required"] });
const Descriptor = Closed(
  { id: credentialId, type: Type.Literal("public-key", { description: "Always", examples: ["public-key"] }) },
  { description: "A credential" },
);

export const CreationOptions = Shape(
  "PasskeyCreationOptions",
  "PublicKeyCredentialCreationOptions in JSON, for PublicKeyCredential.parseCreationOptionsFromJSON",
  {
    rp: Closed(
      { id: Text("Host", "status.example.org"), name: Text("Name of the service", "StatusMesh") },
      { description: "The service" },
    ),
    user: Closed(
      {
        id: Bytes("Id of the account", 128),
        name: Text("Address of the account", "olga@example.org"),
        displayName: Text("Name of the person", "Olga"),
      },
      { description: "The account" },
    ),
    challenge,
    pubKeyCredParams: Type.Array(
      Closed(
        {
          type: Type.Literal("public-key", { description: "Always", examples: ["public-key"] }),
          alg: Type.Integer({ description: "COSE algorithm", examples: [-7] }),
        },
        { description: "An algorithm" },
      ),
      { description: "Accepted signature algorithms, the preferred one first" },
    ),
    timeout,
    attestation: Type.Literal("none", { description: "Nothing is asked about the device", examples: ["none"] }),
    authenticatorSelection: Closed(
      {
        residentKey: Type.Literal("required", { description: "Discoverable", examples: ["required"] }),
        requireResidentKey: Type.Literal(true, { description: "The same, for Level 1", examples: [true] }),
        userVerification,
      },
      { description: "What the device must do" },
    ),
    excludeCredentials: Type.Array(Descriptor, { description: "A device with one of these adds no second one" }),
  },
);

export type CreationOptions = Static<typeof CreationOptions>;

export const RequestOptions = Shape(
  "PasskeyRequestOptions",
  "PublicKeyCredentialRequestOptions in JSON, for PublicKeyCredential.parseRequestOptionsFromJSON",
  { challenge, rpId: Text("Host", "status.example.org"), timeout, userVerification },
);
export type RequestOptions = Static<typeof RequestOptions>;
