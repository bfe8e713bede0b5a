import type { Middleware } from "koa";
import { LRUCache } from "lru-cache";
import { AppError } from "@statusmesh/shared/errors";
import type { System } from "../../platform/context.ts";
import { atRoute } from "../../platform/http/exchange.ts";
import { answerOtherMethod } from "../../platform/http/methods.ts";
import { gateHeaders } from "../../platform/http/page-host.ts";
import type { Hub } from "../../platform/db/notify.ts";
import { logoFile, type LogoFileRow } from "../status-pages/logos/service.ts";
import { pagesChannel } from "../status-pages/service.ts";
import { requireAccess } from "./access/gate.ts";
import { pageOfLogo } from "./service.ts";

/** Bytes of the logos that a process keeps. */
const keptBytes = 16_777_216;
const path = /^\/status-assets\/([\w-]{43})$/;

/** Serves logos: what an address answers never changes, until its page becomes private. */
export function logoFiles(system: System, hub: Hub): Middleware {
  const kept = new LRUCache<string, LogoFileRow>({
    maxSize: keptBytes,
    sizeCalculation: ({ bytes }) => bytes.length || 1,
  });
  hub.on(pagesChannel, () => kept.clear());
  return async (http, next) => {
    if (!http.path.startsWith("/status-assets/")) return await next();
    atRoute(http, "/status-assets/{hash}");
    if (http.method !== "GET" && http.method !== "HEAD") return answerOtherMethod(http, ["GET", "HEAD", "OPTIONS"]);
    const hash = path.exec(http.path)?.[1];
    const file = hash === undefined ? null : (kept.get(hash) ?? (await logoFile(system, hash)));
    if (hash === undefined || file === null) throw new AppError("NOT_FOUND", `There is nothing at ${http.path}.`);
    kept.set(hash, file);
    http.state["mediaType"] = "image/svg+xml";
    const page = await pageOfLogo(system, file.page_id);
    if (page === null) throw new AppError("NOT_FOUND", `There is nothing at ${http.path}.`);
    await requireAccess(system, http, page);
    http.status = 200;
    http.set("Cache-Control", "public, max-age=31536000, immutable");
    http.set(gateHeaders(http));
    http.set("ETag", `"${hash}"`);
    http.set("Content-Security-Policy", "default-src 'none'; sandbox");
    if (http.fresh) {
      http.status = 304;
      return;
    }
    http.type = file.media_type;
    http.body = file.bytes;
  };
}
