import Type, { type Static } from "typebox";
import {
  described,
  Flag,
  Id,
  Integer,
  nullable,
  OneOf,
  PageOf,
  Shape,
  Text,
  Timestamp,
} from "../../platform/http/wire.ts";
import { reasons } from "../channels/schema.ts";

const Attempt = Type.Object({
  at: Timestamp,
  ok: Flag("Whether the receiver accepted it"),
  status: nullable(Integer("Status code of the receiver; null when it did not answer", 200)),
  error: nullable(Text("Error of the attempt", null)),
});

export const Delivery = Shape("Delivery", "One notice for one channel", {
  id: Id,
  channel_id: nullable(described(Id, "Null when the channel is gone")),
  channel_name: Text("As it was then", "On call"),
  channel_type: Text("Kind of the channel", "webhook"),
  reason: OneOf(reasons, "Reason of the notification"),
  state: OneOf(
    ["pending", "held", "delivered", "dead", "dropped"],
    "dead: given up; held: something holds it, see /explain; dropped: it was held and is not to be sent any more",
    "delivered",
  ),
  held_by: nullable(
    OneOf(
      ["failures", "hours", "over"],
      "What holds it, held it or has it dropped: after_failures of its binding, the active hours of its channel, or " +
        "over: when its message was due, nothing in it was open and no recovery was owed",
      null,
    ),
  ),
  attempts: Type.Array(Attempt, { description: "Oldest first" }),
  next_attempt_at: nullable(described(Timestamp, "Null when there is none", null)),
  created_at: Timestamp,
  delivered_at: nullable(described(Timestamp, "When the receiver accepted it", "2026-11-20T09:30:00.400Z")),
  message_id: nullable(
    described(Id, "The same in all deliveries of one message; null for a message of its own, and before it", null),
  ),
});
export type Delivery = Static<typeof Delivery>;

export const DeliveryPage = PageOf(Delivery);
