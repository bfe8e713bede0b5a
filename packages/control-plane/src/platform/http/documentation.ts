import type { Context, Middleware } from "koa";
import { codedTag, gzipped, takesGzip } from "./reply/compression.ts";
import { namesTag } from "./reply/etag.ts";
import { atRoute } from "./exchange.ts";
import { isRead } from "./methods.ts";
import { securePage } from "./reply/security-headers.ts";

/**
 * Documents by path, each made for its first reader; as bytes, which all connections share. One that cannot be made is
 * made again for the next reader.
 */
export function documentation(made: Readonly<Record<string, () => Promise<string | Buffer>>>): Middleware {
  const bytes = new Map<string, Promise<Buffer>>();
  const make = async (path: string): Promise<Buffer> => {
    try {
      return Buffer.from(await made[path]!());
    } catch (error) {
      bytes.delete(path);
      throw error;
    }
  };
  const answer = async (http: Context): Promise<void> => {
    if (!bytes.has(http.path)) bytes.set(http.path, make(http.path));
    const body = (await bytes.get(http.path))!;
    atRoute(http, http.path);
    http.set("Cache-Control", "public, max-age=60");
    const isJson = http.path.endsWith(".json");
    // The viewer writes styles into its elements.
    if (!isJson) securePage(http, { styles: ["'unsafe-inline'"] });
    http.type = isJson ? "application/json; charset=utf-8" : "text/html; charset=utf-8";
    const isGzip = takesGzip(http, body);
    const tag = codedTag(body, isGzip);
    http.set("ETag", tag);
    if (namesTag(http.get("if-none-match"), tag)) http.status = 304;
    else http.body = isGzip ? await gzipped(http, body) : body;
  };
  return (http, next) => (Object.hasOwn(made, http.path) && isRead(http) ? answer(http) : next());
}
