import { AppError } from "@statusmesh/shared/errors";
import { below, checkAll, Faults } from "@statusmesh/shared/schema/faults";
import { blockedHost } from "@statusmesh/shared/net/address";
import { mask } from "@statusmesh/shared/secrets";
import { refuseDeniedHost } from "../../../access/abuse/service.ts";
import type { Config } from "../../../config/config.ts";
import type { System } from "../../../platform/context.ts";
import { type ChannelConfig, kindOf, channelKinds, isChannelType } from "../kinds/index.ts";
import { isPermanent } from "../kinds/deliver.ts";
import { signature } from "../kinds/webhook.ts";
import { formOf } from "../../../platform/html/schema-fields.ts";
import type { ChannelKind } from "../kinds/kind.ts";

/** Plain http reveals outages to the network, so it is allowed in private networks only. */
export const allowsHttp = ({ channels, security }: Config): boolean =>
  channels.allow_http && security.allow_private_targets;

/**
 * Throws REDACTION_SENTINEL, INVALID_CHANNEL_CONFIG or SSRF_BLOCKED; the field points into a body with the config at
 * `config`.
 */
export function checkConfig(ctx: Pick<System, "abuse" | "config">, config: ChannelConfig): void {
  const kind = kindOf(config);
  below("/config", () =>
    checkAll(
      () => refuseMasks(config),
      () => kind.rules(config, { http: allowsHttp(ctx.config) }),
    ),
  );
  refuseDeniedUrls(ctx, config, "/config");
  if (ctx.config.security.allow_private_targets) return;
  for (const { url, pointer } of kind.urls(config)) {
    const range = blockedHost(hostOf(url));
    if (range !== null)
      throw new AppError(
        "SSRF_BLOCKED",
        "The URL leads to a private or reserved address. Use one that is reachable from the internet.",
        {
          field: `/config${pointer}`,
          details: { range },
        },
      );
  }
}

/** Throws REDACTION_SENTINEL for every secret that is the mask. */
function refuseMasks(config: ChannelConfig): void {
  const faults = new Faults();
  kindOf(config).mapSecrets(config, (secret, field) => {
    if (secret.startsWith(mask))
      faults.add(
        new AppError(
          "REDACTION_SENTINEL",
          `${mask} stands for a stored secret. Send the secret itself, or leave config out to keep the stored one.`,
          { field },
        ),
      );
    return secret;
  });
  faults.throwAny();
}

/** Throws DOMAIN_DENYLISTED; `base` is the pointer of the config in the body, or null. */
export function refuseDeniedUrls(ctx: Pick<System, "abuse">, config: ChannelConfig, base: string | null): void {
  for (const { url, pointer } of kindOf(config).urls(config))
    refuseDeniedHost(ctx, hostOf(url), base === null ? null : base + pointer);
}

const hostOf = (url: string): string => new URL(url).hostname.replace(/^\[|\]$/g, "");

/**
 * Checks a webhook URL by the rules of webhook channels: https, deny-list, private addresses. The errors of {@link
 * checkConfig} have the pointer `field`.
 */
export function checkWebhookUrl(system: Pick<System, "abuse" | "config">, url: string, field: string): void {
  try {
    checkConfig(system, { type: "webhook", url, headers: {}, secret: null });
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    throw new AppError(error.code, error.message, { field, details: error.details, cause: error });
  }
}

export { isPermanent as isPermanentStatus, signature as webhookSignature };

const forms = Object.values(channelKinds).flatMap((kind: ChannelKind) =>
  kind.managed === true
    ? []
    : [
        {
          type: kind.type,
          label: kind.label,
          purpose: kind.purpose,
          icon: kind.icon,
          form: formOf(kind.schema, { base: "/config", scope: kind.type }),
        },
      ],
);

/** Forms of the kinds that have one; managed kinds are connected with a code. */
export const channelForms = () => forms;

/** Display name of a kind; the type for an unknown kind. */
export const kindLabel = (type: string): string => (isChannelType(type) ? channelKinds[type].label : type);
