import { AppError } from "@statusmesh/shared/errors";
import { page } from "../../../platform/html/pages.ts";
import { stateWords } from "../../../platform/html/format.ts";
import { secretAddress } from "../../../platform/http/reply/security-headers.ts";
import { blankFrame } from "../pages.ts";
import { shareRanges, sharedPage } from "./view.ts";

/** The page of a shared monitor. */
export const shareViewPages = [
  page("/m/{token}", "public", async ({ ctx, params, query }) => {
    const token = params["token"] ?? "";
    const range = shareRanges.find(({ key }) => key === query["range"]) ?? shareRanges[0];
    try {
      const data = await sharedPage(ctx, token, range);
      return {
        view: "shares/show",
        fragment: "shares/show-live",
        headers: secretAddress,
        data: { ...data, token, range, ranges: shareRanges, word: stateWords[data.status.state], ...frame() },
      };
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      const missing = error.status === 404;
      return {
        view: "public/notice",
        status: error.status,
        headers: secretAddress,
        data: {
          ...frame(),
          heading: missing ? "Link not found" : "Status not available",
          sentence: missing
            ? "This link has expired or was revoked. Ask for a new one."
            : "The monitor cannot be read at the moment. Try again shortly.",
        },
      };
    }
  }),
];

const frame = () => ({ ...blankFrame, pageName: "Shared monitor" });
