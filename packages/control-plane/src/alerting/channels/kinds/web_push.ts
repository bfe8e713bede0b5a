import { createHash } from "node:crypto";
import Type from "typebox";
import { isPoint, maxPushBytes } from "../../../platform/crypto/push-message.ts";
import type { Content, Round } from "../sending/content.ts";
import { factLines, fitted, type MessageText } from "../sending/message-text.ts";
import { messageText } from "../sending/message.ts";
import { channelKind, DeliveryError, invalid, SecretText, webUrl } from "./kind.ts";
import { Flag, nullable, Shape, Text, Timestamp } from "../../../platform/http/wire.ts";

/** Fields of a subscription that a browser has made (Push API, PushSubscriptionJSON). */
export const subscriptionFields = {
  endpoint: SecretText({
    maxLength: 2048,
    errorCode: "INVALID_CHANNEL_CONFIG",
    description: "Address at the push service of the browser; reads as ***",
    examples: ["https://updates.push.services.mozilla.com/wpush/v2/gAAAAABk7Xw"],
  }),
  p256dh: Type.String({
    pattern: "^[A-Za-z0-9_-]{87}=?$",
    errorCode: "INVALID_CHANNEL_CONFIG",
    expects: "Use the key p256dh of the subscription: 65 bytes in base64url",
    description: "Public key of the subscription: a point of P-256 in base64url",
    examples: ["BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"],
  }),
  auth: SecretText({
    maxLength: 24,
    errorCode: "INVALID_CHANNEL_CONFIG",
    description: "Secret of the subscription: 16 bytes in base64url; reads as ***",
    examples: ["BTBZMqHH6r4Tts7J_aSIgg"],
  }),
};

const WebPushConfig = Shape("WebPushConfig", "A browser or phone that its person has registered", {
  type: Type.Literal("web_push"),
  ...subscriptionFields,
  server_key: Text("Public key of this installation that the subscription was made with", "BP4z9KsN6nGRTbVYI_c7VJSP"),
  private: Flag("Whether messages name no monitor", false),
  expires_at: nullable(Timestamp),
});

/** RFC 8030 section 5.2: a push service keeps a message for a phone that is off this long. */
const ttlSecs = 86_400;
const testTtlSecs = 300;

/** What the service worker shows (assets/push-worker.js). */
interface PushContent {
  title: string;
  body: string;
  /** The page that a tap opens. */
  url: string;
  /** A newer notification with the same tag replaces the one that is shown. */
  tag: string;
  /** The address that acknowledges by POST, with its token; null where there is nothing to acknowledge. */
  acknowledge_url: string | null;
  sent_at: number;
}

const openings: readonly string[] = ["opened", "reopened", "escalated", "unacknowledged"];

/** True for a message that should wake a phone. */
function isOpening(content: Content): boolean {
  if (content.kind === "round") return openings.includes(content.round.said);
  return content.kind !== "reply" && (content.kind === "test" || openings.includes(content.notice.reason));
}

/** Topic of RFC 8030 section 5.4, at most 32 characters: a newer message about the same replaces a waiting one. */
function topicOf(content: Content, deliveryId: string): string {
  const about = content.kind === "notice" ? content.notice.incident_id : deliveryId;
  return createHash("sha256").update(about).digest("base64url").slice(0, 24);
}

const monitorsOf = ({ fresh, recovered, brief }: Round): number => fresh || recovered || brief;

/** The message without a name: how many monitors, and their state. */
function withoutNames(content: Content, message: MessageText): MessageText {
  if (content.kind === "test" || content.kind === "reply") return message;
  const total = content.kind === "round" ? monitorsOf(content.round) : 1;
  const is = total === 1 ? "is" : "are";
  const state = { down: `${is} down`, degraded: `${is} degraded`, up: "recovered", test: "" }[message.tone];
  const title = `${total} monitor${total === 1 ? "" : "s"} ${state}`;
  return { ...message, title, facts: [] };
}

/** Content of a push message, at most {@link maxPushBytes} long. */
function pushContent(content: Content, deliveryId: string, sentAt: number, isPrivate: boolean): string {
  const whole = messageText(content);
  const message = isPrivate ? withoutNames(content, whole) : whole;
  const rendered = (part: MessageText): string => {
    const shown: PushContent = {
      title: part.title,
      body: factLines(part),
      url: part.url,
      tag: topicOf(content, deliveryId),
      acknowledge_url: part.acknowledgeUrl,
      sent_at: sentAt,
    };
    return JSON.stringify(shown);
  };
  return fitted(message, rendered, maxPushBytes, Buffer.byteLength);
}

/** RFC 8030 section 7.3 and what push services answer: the subscription has ended. */
const ended: readonly (number | null)[] = [404, 410];

/**
 * A browser or phone by web push: RFC 8030, encrypted by RFC 8291, signed by RFC 8292. Personal: created by
 * `POST …/devices` only.
 */
export const webPush = channelKind({
  type: "web_push",
  label: "Device",
  purpose: "This phone or browser",
  icon: "phone",
  phone: true,
  schema: WebPushConfig,
  managed: true,
  address: ({ endpoint }) => ({ url: endpoint, pointer: "/endpoint" }),
  rules({ endpoint, p256dh, auth }, allowed) {
    webUrl(endpoint, "/endpoint", allowed);
    if (!isPoint(p256dh))
      invalid("p256dh is no point of the curve P-256. Send the key of the subscription.", "/p256dh");
    if (!/^[\w-]{22}$/.test(auth))
      invalid("auth has 16 bytes in base64url. Send the key of the subscription.", "/auth");
  },
  async send({ endpoint, p256dh, auth, server_key, private: isPrivate }, { content, deliveryId, sentAt }, { push }) {
    try {
      await push({
        endpoint,
        keys: { p256dh, auth },
        serverKey: server_key,
        ttlSecs: content.kind === "test" ? testTtlSecs : ttlSecs,
        urgency: isOpening(content) ? "high" : "normal",
        topic: topicOf(content, deliveryId),
        content: pushContent(content, deliveryId, sentAt, isPrivate),
      });
    } catch (error) {
      if (!(error instanceof DeliveryError) || !ended.includes(error.status)) throw error;
      throw new DeliveryError(error.message, {
        permanent: true,
        status: error.status,
        cause: error,
        disables:
          `The push service answered ${error.status}: the browser has ended its subscription. ` +
          "Open Channels on that device and press Notify this device.",
      });
    }
  },
});
