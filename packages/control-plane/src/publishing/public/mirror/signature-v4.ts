import { createHash, createHmac } from "node:crypto";

/** Keys of an S3 account and the region that is signed for. */
export interface S3Keys {
  accessKeyId: string;
  secretAccessKey: string;
  region: string;
}

export const sha256 = (content: Buffer | string): string => createHash("sha256").update(content).digest("hex");

const hmac = (key: Buffer | string, text: string): Buffer => createHmac("sha256", key).update(text).digest();

/**
 * The headers of an S3 request with its signature: AWS Signature Version 4 with a signed payload
 * (https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html). `headers` are those to sign besides
 * host, date and hash; `path` is encoded as it is sent; `at`: Unix ms.
 */
export function signed(
  request: { method: string; url: URL; headers: Readonly<Record<string, string>>; body: Buffer },
  { accessKeyId, secretAccessKey, region }: S3Keys,
  at: number,
): Record<string, string> {
  const { method, url, body } = request;
  const time = new Date(at).toISOString().replaceAll(/[-:]|\.\d+/g, "");
  const day = time.slice(0, 8);
  const payload = sha256(body);
  const headers: Record<string, string> = {
    ...request.headers,
    host: url.host,
    "x-amz-content-sha256": payload,
    "x-amz-date": time,
  };
  const lower = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value.trim()] as const);
  const sorted = lower.toSorted(([a], [b]) => (a < b ? -1 : 1));
  const names = sorted.map(([name]) => name).join(";");
  const query = [...url.searchParams]
    .map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`)
    .sort()
    .join("&");
  const canonical = [
    method,
    url.pathname,
    query,
    ...sorted.map(([name, value]) => `${name}:${value}`),
    "",
    names,
    payload,
  ].join("\n");
  const scope = `${day}/${region}/s3/aws4_request`;
  const text = ["AWS4-HMAC-SHA256", time, scope, sha256(canonical)].join("\n");
  const key = [day, region, "s3", "aws4_request"].reduce<Buffer | string>(hmac, `AWS4${secretAccessKey}`);
  const signature = hmac(key as Buffer, text).toString("hex");
  const credential = `Credential=${accessKeyId}/${scope}`;
  const { host: _host, ...sent } = headers;
  return {
    ...sent,
    authorization: `AWS4-HMAC-SHA256 ${credential},SignedHeaders=${names},Signature=${signature}`,
  };
}
