import { isSendableHeader } from "@statusmesh/shared/checks/http-rules";
import { blockedHost } from "@statusmesh/shared/net/address";
import type { Item } from "@statusmesh/shared/foreign/item";
import type { Json } from "@statusmesh/shared/json";
import { Secret } from "@statusmesh/shared/foreign/check";
import { privateTarget } from "./draft.ts";
import { type Row, text } from "@statusmesh/shared/foreign/values";

/** Config of a channel; null where it cannot be one, and the item says why. */
type Config = Json | null;

/** Makes channels of the settings of a provider; `of` is a text of them. */
type Provider = (item: Item, of: (name: string) => string, settings: Row) => Config | Json[];
export type Providers = Readonly<Record<string, Provider>>;

/** The channels that settings of a provider become; none with the reason in the item. */
export function channelsFrom(providers: Providers, type: string, item: Item, settings: Row): Json[] {
  if (!Object.hasOwn(providers, type)) {
    no(item, `no kind of channel for ${type.slice(0, 40) || "an empty type"}: a webhook may do`);
    return [];
  }
  const made = providers[type]!(item, (name) => text(settings[name]).trim(), settings);
  return made === null ? [] : Array.isArray(made) ? made : [made];
}

const no = (item: Item, reason: string): null => item.refuse(reason, "silent");

function webUrl(item: Item, text: string, allowsHttp = false): URL | null {
  const url = URL.canParse(text) && !/[\s\p{Cc}\p{Cf}\\]/u.test(text) ? new URL(text) : null;
  if (url === null || !/^https?:$/.test(url.protocol) || url.port === "0") return no(item, "its URL is not valid");
  if (url.username !== "" || url.password !== "") return no(item, "its URL has credentials: send them as a header");
  if (url.protocol === "http:" && !allowsHttp) return no(item, "its URL is not https");
  if (blockedHost(url.hostname.replaceAll(/[[\]]/g, "")) !== null) item.note(privateTarget, "silent");
  if (url.protocol === "http:")
    item.note(
      "its URL is not https: set channels.allow_http on the server before the apply, which is refused otherwise",
      "silent",
    );
  return url;
}

export const slack = (item: Item, url: string): Config => {
  const parsed = webUrl(item, url);
  if (parsed === null) return null;
  if (parsed.hostname.endsWith("slack.com") && parsed.search !== "") return no(item, "its webhook has a query");
  return { type: "slack", webhook_url: new Secret(url) };
};

export const discord = (item: Item, url: string): Config => {
  const parsed = webUrl(item, url);
  if (parsed === null) return null;
  const isOne =
    /^(?:(?:canary|ptb)\.)?discord(?:app)?\.com$/.test(parsed.host) &&
    /^\/api\/webhooks\/\d+\/[\w-]+$/.test(parsed.pathname);
  return isOne ? { type: "discord", webhook_url: new Secret(url) } : no(item, "its URL is not a Discord webhook");
};

export const teams = (item: Item, url: string): Config => {
  const parsed = webUrl(item, url);
  if (parsed === null) return null;
  if (/(?:\.webhook\.office|outlook\.office(?:365)?)\.com$/.test(parsed.hostname))
    return no(
      item,
      "Microsoft has retired this connector: add the workflow “Send webhook alerts to a channel” in Teams",
    );
  const isWorkflow =
    /\.(?:logic\.azure\.(?:com|us|cn)|api\.powerplatform\.com)$/.test(parsed.hostname) && parsed.port === "";
  return isWorkflow && parsed.searchParams.get("sig")
    ? { type: "msteams", webhook_url: new Secret(url) }
    : no(item, "its URL is not a Teams workflow");
};

export const googleChat = (item: Item, url: string): Config => {
  const parsed = webUrl(item, url);
  if (parsed === null) return null;
  const isOne = parsed.host === "chat.googleapis.com" && /^\/v1\/spaces\/[^/]+\/messages$/.test(parsed.pathname);
  return isOne && parsed.searchParams.has("key") && parsed.searchParams.has("token")
    ? { type: "google_chat", webhook_url: new Secret(url) }
    : no(item, "its URL is not a Google Chat webhook");
};

export const telegram = (item: Item, token: string, chat: string): Config =>
  /^[\w:-]{1,200}$/.test(token) && /^(?:-?\d{1,20}|@[A-Za-z]\w{0,62})$/.test(chat)
    ? { type: "telegram", bot_token: new Secret(token), chat_id: chat }
    : no(item, "its bot token or chat id is not valid for Telegram");

export function webhook(item: Item, url: string, headers: readonly (readonly [string, string])[] = []): Config {
  if (webUrl(item, url, true) === null) return null;
  item.note("its requests have another body: see the webhook in docs/notifications.md", "silent");
  const own = /^(?:host|(?:content|http2|keep|proxy|transfer|user|x-service)-.*)$/i;
  const seen = new Set<string>();
  const sent = headers.filter(
    ([name, value]) =>
      isSendableHeader(name, value) &&
      !own.test(name) &&
      seen.size < seen.add(name.toLowerCase()).size &&
      seen.size <= 50,
  );
  return {
    type: "webhook",
    url: new Secret(url),
    headers: sent.length === 0 ? undefined : Object.fromEntries(sent.map(([name, value]) => [name, new Secret(value)])),
  };
}

export function ntfy(item: Item, server: string, topic: string, token: string): Config {
  const url = webUrl(item, server === "" ? "https://ntfy.sh" : server, true);
  if (url === null) return null;
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(topic)) return no(item, "its topic is not valid for ntfy");
  if (url.pathname !== "/" || url.search !== "" || url.hash !== "") return no(item, "its server has a path");
  if (token !== "" && !/^[\x21-\x7e]{1,1024}$/.test(token)) return no(item, "its access token has spaces");
  return {
    type: "ntfy",
    topic,
    server_url: url.origin === "https://ntfy.sh" ? undefined : url.origin,
    access_token: token === "" ? undefined : new Secret(token),
  };
}

export const pushover = (item: Item, token: string, user: string, device: string): Config =>
  /^[A-Za-z0-9]{30}$/.test(token) && /^[A-Za-z0-9]{30}$/.test(user)
    ? {
        type: "pushover",
        token: new Secret(token),
        user: new Secret(user),
        device: /^[A-Za-z0-9_-]{1,25}(?:,[A-Za-z0-9_-]{1,25}){0,9}$/.test(device) ? device : undefined,
      }
    : no(item, "its token or user key is not valid for Pushover");

export const pagerduty = (item: Item, key: string): Config =>
  /^[A-Za-z0-9]{32}$/.test(key)
    ? { type: "pagerduty", routing_key: new Secret(key) }
    : no(item, "its key is not an integration key of the Events API v2");

export const twilio = (item: Item, { sid, token, from, to }: Record<"sid" | "token" | "from" | "to", string>): Config =>
  /^AC[0-9a-fA-F]{32}$/.test(sid) &&
  /^[\x21-\x7e]{1,1024}$/.test(token) &&
  /^\+[1-9]\d{6,14}$/.test(to) &&
  /^\+[1-9]\d{6,14}$/.test(from)
    ? { type: "sms", provider: "twilio", to, from, account_sid: sid, auth_token: new Secret(token) }
    : no(item, "its account or numbers are not valid for Twilio: numbers begin with + and the country");

/** One channel for each address. */
export function emails(item: Item, to: string): Json[] {
  const found = to.split(/[,;]/).flatMap((one) => {
    const address = (/<([^>]*)>\s*$/.exec(one)?.[1] ?? one).trim().toLowerCase();
    return /^[^\s@"<>()[\],;:\\]{1,64}@[a-z0-9](?:[a-z0-9.-]{0,250}[a-z0-9])?\.[a-z0-9-]{2,63}$/.test(address)
      ? [address]
      : [];
  });
  const unique = [...new Set(found)].slice(0, 50);
  if (unique.length === 0) {
    no(item, "it has no mail address");
    return [];
  }
  item.note(
    "each address gets a mail after the apply, and nothing else before its link is clicked. The mail server is that " +
      "of the installation",
    "silent",
  );
  if (unique.length > 1) item.note("one channel for each of its addresses", "detail");
  return unique.map((address) => ({ type: "email", to: address }));
}

const isToken = (token: string): boolean => /^[\x21-\x7e]{1,1000}$/.test(token);

/** A server that people run themselves. */
function ownServer(item: Item, url: string): boolean {
  const parsed = webUrl(item, url, true);
  if (parsed === null) return false;
  if (parsed.search === "" && parsed.hash === "") return true;
  no(item, "the URL of its server has a query");
  return false;
}

export function gotify(item: Item, url: string, token: string): Config {
  if (!ownServer(item, url)) return null;
  return isToken(token)
    ? { type: "gotify", url, token: new Secret(token) }
    : no(item, "its token is not valid for Gotify");
}

export function mattermost(item: Item, url: string): Config {
  if (!ownServer(item, url)) return null;
  return /\/hooks\/[A-Za-z0-9_-]+$/.test(new URL(url).pathname)
    ? { type: "mattermost", webhook_url: new Secret(url) }
    : no(item, "its URL is not a Mattermost incoming webhook");
}

export function matrix(item: Item, homeserver: string, token: string, room: string): Config {
  if (!ownServer(item, homeserver)) return null;
  return isToken(token) && /^![!-~]{1,254}$/.test(room)
    ? { type: "matrix", homeserver, access_token: new Secret(token), room_id: room }
    : no(item, "its access token or room id is not valid for Matrix");
}

export function signal(item: Item, url: string, sender: string, recipients: string): Config {
  if (!ownServer(item, url)) return null;
  const to = recipients.split(/[,\s]+/).filter((one) => /^(?:\+[1-9]\d{6,14}|group\.[A-Za-z0-9+/=]{1,200})$/.test(one));
  return /^\+[1-9]\d{6,14}$/.test(sender) && to.length > 0
    ? { type: "signal", url, number: sender, recipients: to.slice(0, 20).map((one) => new Secret(one)) }
    : no(item, "its numbers are not valid for Signal: they begin with + and the country");
}

export const opsgenie = (item: Item, key: string, region: string): Config =>
  isToken(key)
    ? { type: "opsgenie", api_key: new Secret(key), region: region.toLowerCase() === "eu" ? "eu" : undefined }
    : no(item, "its key is not valid for Opsgenie");
