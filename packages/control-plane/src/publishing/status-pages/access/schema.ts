import Type, { type Static } from "typebox";
import { Line } from "@statusmesh/shared/text";
import { Closed, Flag, nullable, OneOf } from "../../../platform/http/wire.ts";

const accessModes = ["public", "password", "members", "email_domains", "groups"] as const;
export type AccessMode = (typeof accessModes)[number];

const fields = {
  mode: OneOf(
    accessModes,
    "public: everybody; password: who knows the password of the page; members: members of the organisation; " +
      "email_domains: who opens a link sent to an address of these domains; groups: who is in one of these groups at " +
      "the identity provider (auth.oidc)",
    "public",
  ),
  email_domains: Type.Array(
    Type.String({ minLength: 1, maxLength: 253, description: "A domain of addresses", examples: ["acme.example"] }),
    {
      maxItems: 100,
      description: "Domains of the mode email_domains. A subdomain is another domain",
      examples: [["acme.example"]],
    },
  ),
  groups: Type.Array(Line({ minLength: 1, maxLength: 200, description: "A group, as the provider names it" }), {
    maxItems: 100,
    description: "Groups of the mode groups, in the claim auth.oidc.groups_claim",
    examples: [["customers"]],
  }),
  open_networks: Type.Array(
    Type.String({
      maxLength: 50,
      description: "An address, or a network in CIDR notation",
      examples: ["192.0.2.0/24"],
    }),
    {
      maxItems: 100,
      description: "Networks that read a private page without being asked; addresses as server.trusted_proxies says",
      examples: [["192.0.2.0/24"]],
    },
  ),
  keep_subscribers: Flag(
    "Whether those who subscribed before the page was private still get its messages; they may have no access",
    false,
  ),
  title: nullable(
    Line({
      maxLength: 80,
      description: 'Heading of the form, which strangers see; null: "This page is private"',
      examples: ["Status of Acme"],
    }),
  ),
};

/** Who reads a page. */
export const Access = Closed(fields, { title: "PageAccess", description: "Who reads the page" });
export type Access = Static<typeof Access>;

/** Access in a request: omitted fields take their default, and an omitted password stays. */
export const AccessInput = Closed(
  {
    mode: fields.mode,
    password: Type.Optional(
      Type.String({
        minLength: 8,
        maxLength: 256,
        description: "Password of the page, 8 to 256 characters; never read back. Omitted, the present one stays",
        examples: ["correct horse battery staple"],
      }),
    ),
    email_domains: Type.Optional(Type.Unsafe<string[]>({ ...fields.email_domains, default: [] })),
    groups: Type.Optional(Type.Unsafe<string[]>({ ...fields.groups, default: [] })),
    open_networks: Type.Optional(Type.Unsafe<string[]>({ ...fields.open_networks, default: [] })),
    keep_subscribers: Type.Optional(Type.Unsafe<boolean>({ ...fields.keep_subscribers, default: false })),
    title: Type.Optional(Type.Unsafe<string | null>({ ...fields.title, default: null })),
  },
  {
    title: "PageAccessInput",
    description: "Replaces the access as a whole, the password aside: omitted fields take their default",
    examples: [{ mode: "password", password: "correct horse battery staple" }],
  },
);
export type AccessInput = Static<typeof AccessInput>;
