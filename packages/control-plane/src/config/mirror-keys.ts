import Type, { type Static } from "typebox";

const bucketPattern = "^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$";

const S3 = Type.Object(
  {
    endpoint: Type.String({ pattern: "^https?://[^\\s/?#@]+$" }),
    bucket: Type.String({ pattern: bucketPattern }),
    prefix: Type.Optional(
      Type.String({ pattern: "^(?:[A-Za-z0-9_-][A-Za-z0-9._-]*(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*)*)?$" }),
    ),
    region: Type.Optional(Type.String({ pattern: "^[a-z0-9-]{1,40}$" })),
    access_key_id: Type.String({ pattern: "^[!-~]{1,200}$" }),
    secret_access_key_file: Type.String({ pattern: "^[^\\0]+$" }),
  },
  { additionalProperties: false },
);

const MirrorTarget = Type.Object(
  {
    page: Type.String({ pattern: "^[a-z0-9][a-z0-9-]{0,59}$" }),
    allow_private: Type.Optional(Type.Boolean()),
    s3: Type.Optional(S3),
    directory: Type.Optional(Type.String({ pattern: "^[^\\0]+$" })),
  },
  { additionalProperties: false },
);
/** Where a copy of a status page is kept: an S3 bucket or a folder. */
export type MirrorTarget = Static<typeof MirrorTarget>;

export const mirror = Type.Object({
  targets: Type.Array(MirrorTarget, {
    default: [],
    maxItems: 1000,
    description: "Copies of status pages as static files, each in an S3 bucket or a folder",
    expects: "a list of {page, s3 {endpoint, bucket, access_key_id, secret_access_key_file} | directory}",
  }),
});

/** The destination in words, which is also the name of the copy. */
export const destinationOf = ({ s3, directory }: MirrorTarget): string =>
  s3 === undefined ? directory! : `${s3.endpoint}/${s3.bucket}${s3.prefix ? `/${s3.prefix}` : ""}`;

/** One line per target without one destination, and per destination of several targets. */
export function mirrorProblems(targets: readonly MirrorTarget[]): string[] {
  const problems = targets.flatMap(({ s3, directory }, at) =>
    (s3 === undefined) === (directory === undefined)
      ? [`mirror.targets[${at}] needs s3 or directory, ${s3 === undefined ? "and has neither" : "not both"}`]
      : [],
  );
  if (problems.length > 0) return problems;
  const destinations = targets.map(destinationOf);
  const twice = destinations.find((one, at) => destinations.indexOf(one) < at);
  return twice === undefined ? [] : [`mirror.targets has ${twice} twice: each copy needs a destination of its own`];
}
