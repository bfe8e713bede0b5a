import encodeQR from "qr";
import { AppError } from "@statusmesh/shared/errors";
import { channelForms, kindLabel } from "../channels/config/service.ts";
import { delegableKinds } from "../channels/kinds/service.ts";
import { pendingVerification, subscribedAddress } from "../channels/verification/service.ts";
import { formPage, page } from "../../platform/html/pages.ts";
import { secretAddress } from "../../platform/http/reply/security-headers.ts";
import {
  codeState,
  isCodeOf,
  isOn,
  listDelegations,
  type Messenger,
  pendingDelegation,
  telegramLinks,
  whatsappLinks,
} from "./service.ts";

/** A QR code as SVG. Made of digits and our own markup only. */
const qrOf = (text: string): string => encodeQR(text, "svg", { ecc: "medium", border: 2 });

/** The page of one code. The database has only the hash, so the path holds the code; logs mask it. */
const codePage = (purpose: Messenger) =>
  page(`/channels/connect/${purpose}/{id}/{code}`, "tenant", async ({ ctx, params }) => {
    const { id, code } = { id: params["id"]!, code: params["code"]! };
    const state = await codeState(ctx, purpose, id);
    if (!(await isCodeOf(ctx, id, code))) throw new AppError("NOT_FOUND", "Code not found.");
    const links =
      purpose === "telegram"
        ? telegramLinks(ctx.config, code)
        : { ...whatsappLinks(ctx.config, code), group_deep_link: null };
    const path = `/channels/connect/${purpose}/${id}/${code}`;
    return {
      view: "channel-links/code",
      fragment: "channel-links/code-live",
      data: { purpose, state, links, code, path, qr: qrOf(links.deep_link) },
      headers: secretAddress,
    };
  });

export const channelLinkPages = [
  formPage("/channels/connect", async ({ ctx, offset }) => {
    const list = await listDelegations(ctx, { limit: 50, offset });
    return {
      view: "channel-links/connect",
      data: {
        list,
        items: list.items.map((link) => ({ ...link, label: link.kind === null ? "Any" : kindLabel(link.kind) })),
        telegram: isOn(ctx.config, "telegram"),
        whatsapp: isOn(ctx.config, "whatsapp"),
        kinds: delegableKinds(ctx.config.channels).map((kind): [string, string] => [kind, kindLabel(kind)]),
      },
    };
  }),
  codePage("telegram"),
  codePage("whatsapp"),
  page("/c/{code}", "public", async ({ ctx, params, query }) => {
    const code = params["code"]!;
    const done = query["done"] === "1";
    const pending = done ? null : await pendingDelegation(ctx, code);
    const allowed =
      pending === null ? [] : pending.kind === null ? delegableKinds(ctx.config.channels) : [pending.kind];
    return {
      view: "channel-links/delegated",
      data: {
        // Valid and invalid links show the same page.
        code: pending === null ? null : code,
        name: pending?.name ?? null,
        done,
        kinds: channelForms().filter(({ type }) => allowed.includes(type)),
        telegram: allowed.includes("telegram_app") ? telegramLinks(ctx.config, code) : null,
        whatsapp: allowed.includes("whatsapp_app") ? whatsappLinks(ctx.config, code) : null,
      },
      status: pending === null && !done ? 404 : 200,
      headers: secretAddress,
    };
  }),
  // Links in mails.
  page("/confirm/{code}", "public", async ({ ctx, params, query }) => {
    const done = query["done"] === "1";
    const pending = done ? null : await pendingVerification(ctx, params["code"]!);
    return {
      view: "channel-links/confirm",
      data: { code: params["code"]!, pending, done },
      status: pending === null && !done ? 404 : 200,
      headers: secretAddress,
    };
  }),
  page("/unsubscribe/{id}/{code}", "public", async ({ ctx, params, query }) => {
    const done = query["done"] === "1";
    const address = done ? null : await subscribedAddress(ctx, params["id"]!, params["code"]!);
    return {
      view: "channel-links/unsubscribe",
      data: { path: `/unsubscribe/${params["id"]!}/${params["code"]!}`, address, done },
      status: address === null && !done ? 404 : 200,
      headers: secretAddress,
    };
  }),
];
