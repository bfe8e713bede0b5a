import Type from "typebox";
import { channelKind, DeliveryError } from "./kind.ts";
import { sendWhatsapp, whatsappOrigin } from "./whatsapp.ts";
import { Shape, Text } from "../../../platform/http/wire.ts";

const WhatsappAppConfig = Shape(
  "WhatsappAppConfig",
  "A phone that was connected to the WhatsApp number of the installation with a link code",
  {
    type: Type.Literal("whatsapp_app"),
    phone: Text("Number of the connected phone", "+4915112345678"),
    profile_name: Text("Name of the profile when it was connected", "Olga"),
  },
);

/** A phone that wrote to the number of the installation (`channels.whatsapp`). */
export const whatsappApp = channelKind({
  type: "whatsapp_app",
  label: "WhatsApp (connected phone)",
  purpose: "Connected by a code",
  icon: "whatsapp",
  phone: true,
  delegable: ({ whatsapp: { access_token } }) => access_token !== "",
  schema: WhatsappAppConfig,
  managed: true,
  address: () => ({ url: whatsappOrigin, pointer: null }),
  endpoints: [],
  endpoint: () => "whatsapp",
  async send({ phone }, { content }, transports) {
    const central = transports.central.whatsapp;
    if (central.access_token === "") throw new DeliveryError("no WhatsApp number is configured (channels.whatsapp)");
    // A template, because Meta delivers other texts within 24 hours of a message of the person only.
    await sendWhatsapp(transports, { ...central, to: phone, language_code: central.template_language }, content);
  },
});
