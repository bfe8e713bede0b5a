import { AppError } from "@statusmesh/shared/errors";
import { below, checkAll, Faults } from "@statusmesh/shared/faults";
import { blockedHost } from "@statusmesh/shared/net/address";
import { mask } from "@statusmesh/shared/secrets";
import { refuseDeniedHost } from "../../access/abuse/service.ts";
import type { Config } from "../../config/config.ts";
import type { System } from "../../platform/context.ts";
import { type ChannelConfig, kindOf } from "./kinds/index.ts";

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
    if (secret === mask)
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
