import Type from "typebox";
import { checkAll } from "@statusmesh/shared/schema/faults";
import { fitted, textLines, withIcon } from "../sending/message-text.ts";
import { messageText } from "../sending/message.ts";
import { deliver, jsonObject, jsonRequest } from "./deliver.ts";
import { below, channelKind, headerToken, ownServer, ConfigText, SecretText } from "./kind.ts";
import { Shape } from "../../../platform/http/wire.ts";

/** Ours: an event has 65,536 bytes with everything that servers add (https://spec.matrix.org/latest/client-server-api/#size-limits). */
const maxBodyBytes = 16_384;

const MatrixConfig = Shape("MatrixConfig", "Posts to a Matrix room without encryption", {
  type: Type.Literal("matrix"),
  homeserver: ConfigText({
    maxLength: 2048,
    description: "Address of the homeserver's client API",
    examples: ["https://matrix.example.org"],
    form: { label: "Homeserver", control: "url", hint: "The address at which clients sign in." },
  }),
  access_token: SecretText({
    maxLength: 2048,
    description: "Access token of an account that is in the room; reads as ***",
    examples: ["syt_c3RhdHVz_XXXX"],
    form: {
      label: "Access token",
      hint: "Of a dedicated account that has joined the room. Stored encrypted.",
    },
  }),
  room_id: Type.String({
    pattern: "^![!-~]{1,254}$",
    expects: "A room id begins with !, such as !abcdefgh:example.org. It is in the settings of the room, Advanced",
    description: "Internal id of the room, which begins with !",
    examples: ["!qporfwtidtrDHcQwOI:example.org"],
    form: { label: "Room id", hint: "In Element: Room settings, Advanced. Not the alias that begins with #." },
  }),
});

/**
 * Matrix: https://spec.matrix.org/latest/client-server-api/#put_matrixclientv3roomsroomidsendeventtypetxnid. The
 * delivery's id is the transaction id, so that a retry is no second message. `m.mentions` without members turns off
 * mentions of people and of the room in the texts of customers.
 */
export const matrix = channelKind({
  type: "matrix",
  label: "Matrix",
  purpose: "A message in a room",
  icon: "matrix",
  schema: MatrixConfig,
  address: ({ homeserver }) => ({ url: homeserver, pointer: "/homeserver" }),
  rules({ homeserver, access_token }, allowed) {
    checkAll(
      () => ownServer(homeserver, "/homeserver", allowed),
      headerToken(access_token, "An access token", "/access_token"),
    );
  },
  async send({ homeserver, access_token, room_id }, { content, deliveryId, messageId = deliveryId }, { http }) {
    const body = fitted(withIcon(messageText(content)), textLines, maxBodyBytes, Buffer.byteLength);
    const path = `/_matrix/client/v3/rooms/${encodeURIComponent(room_id)}/send/m.room.message/${messageId}`;
    const event = { msgtype: "m.text", body, "m.mentions": {} };
    const request = jsonRequest(below(homeserver, path), event, { authorization: `Bearer ${access_token}` });
    await deliver(http, { ...request, method: "PUT" }, (reply) => {
      const { errcode, error, retry_after_ms: wait, event_id: id } = jsonObject(reply);
      if (typeof errcode !== "string") return reply.status < 300 && id === undefined ? { reason: "no event id" } : null;
      const retryAfterSecs = typeof wait === "number" && wait > 0 ? Math.ceil(wait / 1000) : reply.retryAfterSecs;
      return { reason: typeof error === "string" ? `${errcode}: ${error}` : errcode, retryAfterSecs };
    });
  },
});
