import { createHash, generateKeyPairSync, randomBytes, sign } from "node:crypto";
import { encodeCBOR } from "@levischuck/tiny-cbor";

/** What an authenticator or browser may do wrong, or differently. */
export interface Deviations {
  origin?: string;
  rpId?: string;
  type?: string;
  challenge?: string;
  crossOrigin?: boolean;
  /** Flags of the authenticator data; default: present, verified, and in a registration attested. */
  flags?: number;
  counter?: number;
  userHandle?: string;
  /** In place of the attestation object. */
  attestationObject?: Buffer;
  /** Changes the signature. */
  tampered?: boolean;
}

/** The parts of the options that an authenticator reads. */
interface Options {
  challenge: string;
  rp?: { id: string };
  user?: { id: string };
  rpId?: string;
}

type Algorithm = "ES256" | "EdDSA" | "RS256";

const sha256 = (bytes: string | Buffer): Buffer => createHash("sha256").update(bytes).digest();
const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString("base64url");

function keyPair(algorithm: Algorithm, modulusLength: number) {
  if (algorithm === "RS256") return generateKeyPairSync("rsa", { modulusLength });
  return algorithm === "EdDSA" ? generateKeyPairSync("ed25519") : generateKeyPairSync("ec", { namedCurve: "P-256" });
}

/** A software authenticator (WebAuthn Level 2) with one passkey, in a browser whose pages have this origin. */
export function softwareAuthenticator(origin: string, algorithm: Algorithm = "ES256", modulusLength = 2048) {
  const { publicKey, privateKey } = keyPair(algorithm, modulusLength);
  const jwk = publicKey.export({ format: "jwk" });
  const part = (name: "x" | "y" | "n" | "e"): Uint8Array => new Uint8Array(Buffer.from(jwk[name]!, "base64url"));
  const cose = {
    ES256: () => [
      [1, 2],
      [3, -7],
      [-1, 1],
      [-2, part("x")],
      [-3, part("y")],
    ],
    EdDSA: () => [
      [1, 1],
      [3, -8],
      [-1, 6],
      [-2, part("x")],
    ],
    RS256: () => [
      [1, 3],
      [3, -257],
      [-1, part("n")],
      [-2, part("e")],
    ],
  }[algorithm]() as [number, number | Uint8Array][];
  const credentialId = randomBytes(32);
  let counter = 0;
  let userHandle = "";

  const clientData = (type: string, { challenge }: Options, deviations: Deviations): Buffer =>
    Buffer.from(JSON.stringify({ type, challenge, origin, crossOrigin: false, ...pick(deviations) }));
  const header = (rpId: string, flags: number, deviations: Deviations): Buffer => {
    const count = Buffer.alloc(4);
    count.writeUInt32BE(deviations.counter ?? counter);
    return Buffer.concat([sha256(deviations.rpId ?? rpId), Buffer.from([deviations.flags ?? flags]), count]);
  };
  const credential = <R>(response: R) => ({
    id: text(credentialId),
    rawId: text(credentialId),
    type: "public-key",
    response,
    authenticatorAttachment: "platform",
    clientExtensionResults: {},
  });

  return {
    /** Counts uses with this number from now on; 0: the authenticator has no counter. */
    count(from: number): void {
      counter = from;
    },
    /** As `navigator.credentials.create`. */
    create(options: Options, deviations: Deviations = {}) {
      userHandle = options.user!.id;
      const length = Buffer.from([0, credentialId.length]);
      const key = encodeCBOR(new Map(cose));
      const authData = Buffer.concat([
        header(options.rp!.id, 0x45, deviations),
        Buffer.alloc(16),
        length,
        credentialId,
        key,
      ]);
      const attestation = new Map<string, string | Uint8Array | Map<string, string>>([
        ["fmt", "none"],
        ["attStmt", new Map()],
        ["authData", new Uint8Array(authData)],
      ]);
      return credential({
        clientDataJSON: text(clientData("webauthn.create", options, deviations)),
        attestationObject: text(deviations.attestationObject ?? encodeCBOR(attestation)),
        transports: ["internal"],
      });
    },
    /** As `navigator.credentials.get`. */
    get(options: Options, deviations: Deviations = {}) {
      if (counter > 0) counter++;
      const data = clientData("webauthn.get", options, deviations);
      const authData = header(options.rpId!, 0x05, deviations);
      const signature = sign(
        algorithm === "EdDSA" ? null : "sha256",
        Buffer.concat([authData, sha256(data)]),
        privateKey,
      );
      if (deviations.tampered === true) signature[signature.length - 1]! ^= 1;
      return credential({
        clientDataJSON: text(data),
        authenticatorData: text(authData),
        signature: text(signature),
        userHandle: deviations.userHandle ?? userHandle,
      });
    },
  };
}

/** The deviations of the client data. */
function pick({ origin, type, challenge, crossOrigin }: Deviations): object {
  return Object.fromEntries(
    Object.entries({ origin, type, challenge, crossOrigin }).filter(([, value]) => value !== undefined),
  );
}
