import { createHash } from "node:crypto";
import { AppError } from "@statusmesh/shared/errors";

/** A logo as it is stored and served. */
export interface LogoImage {
  bytes: Buffer;
  mediaType: string;
  width: number;
  height: number;
  /** SHA-256 of the bytes, base64url: part of its address, which may be cached for a year. */
  hash: string;
}

/** Pixels of an upload: 100 MB decoded. 16,000 by 16,000 pixels fit into a PNG of 800 kB. */
const maxPixels = 25_000_000;

/** Formats by their first bytes. The name and the media type of an upload prove nothing. */
const signatures = [
  { format: "png", mediaType: "image/png", fits: (bytes: Buffer) => bytes.subarray(0, 8).equals(pngStart) },
  { format: "jpeg", mediaType: "image/jpeg", fits: (bytes: Buffer) => bytes.readUIntBE(0, 3) === 0xffd8ff },
  {
    format: "webp",
    mediaType: "image/webp",
    fits: (bytes: Buffer) => bytes.toString("latin1", 0, 4) === "RIFF" && bytes.toString("latin1", 8, 12) === "WEBP",
  },
] as const;
const pngStart = Buffer.from("89504e470d0a1a0a", "hex");

/** Images are decoded one after the other, so that many uploads take the memory of one. */
let queue: Promise<unknown> = Promise.resolve();

/**
 * Decodes an upload, scales it down to `maxSide` pixels, and encodes it again without its metadata. Throws
 * LOGO_FORMAT_UNSUPPORTED, LOGO_TOO_MANY_PIXELS and LOGO_UNREADABLE.
 */
export async function logoImage(upload: Buffer, maxSide: number): Promise<LogoImage> {
  const found = upload.length < 12 ? undefined : signatures.find(({ fits }) => fits(upload));
  if (found === undefined)
    throw new AppError("LOGO_FORMAT_UNSUPPORTED", "The file is no PNG, JPEG or WebP image. SVG is not accepted.");
  const done = queue.then(() => encode(upload, found, maxSide));
  queue = done.catch(() => {});
  return await done;
}

async function encode(
  upload: Buffer,
  { format, mediaType }: (typeof signatures)[number],
  maxSide: number,
): Promise<LogoImage> {
  // Loaded by the first upload: most processes never need it.
  const { default: sharp } = await import("sharp");
  sharp.cache(false);
  sharp.concurrency(1);
  let width = 0;
  let height = 0;
  try {
    const image = sharp(upload, { limitInputPixels: false, failOn: "error", sequentialRead: true });
    ({ width, height } = await image.metadata());
  } catch (cause) {
    throw unreadable(cause);
  }
  if (width * height > maxPixels)
    throw new AppError(
      "LOGO_TOO_MANY_PIXELS",
      `The image has ${width} × ${height} pixels. Up to ${maxPixels / 1_000_000} million are accepted.`,
    );
  try {
    const { data, info } = await sharp(upload, { limitInputPixels: maxPixels, failOn: "error", sequentialRead: true })
      .autoOrient()
      .resize(maxSide, maxSide, { fit: "inside", withoutEnlargement: true })
      .toFormat(format)
      .toBuffer({ resolveWithObject: true });
    const hash = createHash("sha256").update(data).digest("base64url");
    return { bytes: data, mediaType, width: info.width, height: info.height, hash };
  } catch (cause) {
    throw unreadable(cause);
  }
}

const unreadable = (cause: unknown) =>
  new AppError("LOGO_UNREADABLE", "The image is damaged or incomplete.", { cause });
