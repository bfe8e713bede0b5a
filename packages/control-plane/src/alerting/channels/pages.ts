import { formPage, page } from "../../platform/html/pages.ts";
import { zoneNames } from "../../platform/zoned.ts";
import { isChannelType, kindOf } from "./kinds/index.ts";
import { byTag } from "./routes/routes.ts";
import type { Channel } from "./schema.ts";
import { channelForms } from "./config/service.ts";
import { getChannel, laddersOfChannels, listChannels } from "./service.ts";

const pageSize = 50;
const kinds = channelForms();

const routeWords = ({ route }: Channel): string | null => (route === null ? null : byTag(route.tags, route.match));

export const channelsPages = [
  page("/channels", "tenant", async ({ ctx, offset }) => {
    const [list, ladders] = await Promise.all([listChannels(ctx, { limit: pageSize, offset }), laddersOfChannels(ctx)]);
    return {
      view: "channels/list",
      data: {
        list,
        items: list.items.map((channel) => ({
          ...channel,
          kind: kindOf(channel.config).label,
          icon: kindOf(channel.config).icon,
          ladder: ladders.get(channel.id) ?? null,
          byTag: routeWords(channel),
        })),
        origin: ctx.config.server.public_url,
      },
    };
  }),
  formPage("/channels/new", async ({ ctx, query }) => ({
    view: "channels/form",
    fragment: "channels/add",
    data: {
      /** The first channel is the default: a monitor without one is silent. */
      first: (await listChannels(ctx, { limit: 1, offset: 0 })).total === 0,
      channel: null,
      byTag: null,
      zones: zoneNames,
      kinds,
      type: isChannelType(query["kind"]) ? query["kind"] : kinds[0]!.type,
    },
  })),
  formPage("/channels/{id}/edit", async ({ ctx, params }) => {
    const channel = await getChannel(ctx, params["id"]!);
    return {
      view: "channels/form",
      data: {
        first: false,
        channel,
        byTag: routeWords(channel),
        zones: zoneNames,
        kinds,
        type: channel.config.type,
      },
    };
  }),
];
