import { page } from "../../platform/html/pages.ts";
import { secretAddress } from "../../platform/http/reply/security-headers.ts";
import { linkedMessage } from "./service.ts";

/** The page of a link in a notification. It changes nothing, because scanners of mails open links. */
export const acknowledgePages = [
  page("/a/{token}", "public", async ({ ctx, params }) => {
    const token = params["token"]!;
    const linked = await linkedMessage(ctx, token);
    const one = linked?.incident;
    const isOver = linked?.isOver === true || (one?.state === "closed" && one.flapping === null);
    return {
      view: "acknowledge/show",
      data: { token, linked },
      status: linked === null ? 404 : isOver ? 410 : 200,
      headers: secretAddress,
    };
  }),
];
