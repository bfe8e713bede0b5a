import Type, { type Static, type TSchema } from "typebox";
import { Id, nullable, PageOf, Timestamp } from "../http/wire.ts";

const printable = "\\S";

const WebAddress = Type.String({ maxLength: 500, pattern: "^https?://[^\\s/?#@]+([/?#]\\S*)?$", description: "An http or https address" });

const brandingFields = {
  display_name: nullable(Type.String({ maxLength: 80, pattern: printable, description: "Heading of the page; null shows the page's name" })),
  about: nullable(Type.String({ maxLength: 500, description: "A few words for visitors, in Markdown: paragraphs, lists, emphasis, code and links" })),
  brand_color: nullable(Type.String({ pattern: "^#[0-9A-Fa-f]{6}$", description: "#RRGGBB" })),
  style: Type.Enum(["light", "dark", "auto"], { description: "auto follows the visitor's system" }),
  show_powered_by: Type.Boolean(),
  website_url: nullable(WebAddress),
  hide_from_search: Type.Boolean({ description: "Asks search engines not to list the page" }),
};

export const Branding = Type.Object(brandingFields, { additionalProperties: false, title: "Branding" });
export type Branding = Static<typeof Branding>;

const withDefault = <S extends TSchema>(schema: S, value: Static<S>) => Type.Optional(Type.Unsafe<Static<S>>({ ...schema, default: value }));

/** Branding as it is sent: what is left out takes its default. */
const BrandingInput = Type.Object(
  {
    display_name: withDefault(brandingFields.display_name, null),
    about: withDefault(brandingFields.about, null),
    brand_color: withDefault(brandingFields.brand_color, null),
    style: withDefault(brandingFields.style, "auto"),
    show_powered_by: withDefault(brandingFields.show_powered_by, true),
    website_url: withDefault(brandingFields.website_url, null),
    hide_from_search: withDefault(brandingFields.hide_from_search, false),
  },
  { additionalProperties: false },
);
export type BrandingInput = Static<typeof BrandingInput>;

const pageFields = {
  slug: Type.String({ pattern: "^[a-z][a-z0-9-]{2,29}$", errorCode: "INVALID_SLUG", description: "3 to 30 of a-z, 0-9 and -, starting with a letter; no other page has it" }),
  name: Type.String({ maxLength: 80, description: "1 to 80 characters" }),
  enabled: Type.Boolean({ description: "Whether visitors see the page" }),
};

export const StatusPageCreate = Type.Object(
  { slug: pageFields.slug, name: pageFields.name, enabled: withDefault(pageFields.enabled, true), branding: Type.Optional(BrandingInput) },
  { additionalProperties: false, title: "StatusPageCreate" },
);
export type StatusPageCreate = Static<typeof StatusPageCreate>;

export const StatusPagePatch = Type.Object(
  { slug: Type.Optional(pageFields.slug), name: Type.Optional(pageFields.name), enabled: Type.Optional(pageFields.enabled), branding: Type.Optional(BrandingInput) },
  { additionalProperties: false, title: "StatusPagePatch", description: "branding is replaced as a whole when it is sent" },
);
export type StatusPagePatch = Static<typeof StatusPagePatch>;

export const StatusPage = Type.Object(
  {
    id: Id,
    ...pageFields,
    branding: Branding,
    status_url: nullable(Type.String({ description: "Where visitors find the page; null while no address serves it" })),
    logo_url: nullable(Type.String()),
    created_at: Timestamp,
    updated_at: Timestamp,
  },
  { additionalProperties: false, title: "StatusPage" },
);
export type StatusPage = Static<typeof StatusPage>;

export const StatusPagePage = PageOf(StatusPage);

const bindingFields = {
  public_name: nullable(Type.String({ maxLength: 200, pattern: printable, description: "Null shows the monitor's name" })),
  public_description: nullable(Type.String({ maxLength: 500, pattern: printable })),
  public_group: nullable(Type.String({ maxLength: 80, pattern: printable, description: "Components with the same group stand together; those without come last" })),
};

export const ComponentCreate = Type.Object(
  {
    target_id: Id,
    public_name: withDefault(bindingFields.public_name, null),
    public_description: withDefault(bindingFields.public_description, null),
    public_group: withDefault(bindingFields.public_group, null),
  },
  { additionalProperties: false, title: "ComponentCreate" },
);
export type ComponentCreate = Static<typeof ComponentCreate>;

export const ComponentPatch = Type.Object(
  {
    public_name: Type.Optional(bindingFields.public_name),
    public_description: Type.Optional(bindingFields.public_description),
    public_group: Type.Optional(bindingFields.public_group),
  },
  { additionalProperties: false, title: "ComponentPatch", description: "What is left out stays; null restores the default" },
);
export type ComponentPatch = Static<typeof ComponentPatch>;

export const ComponentOrder = Type.Object(
  {
    target_ids: Type.Array(Type.Unsafe<string>({ ...Id, errorCode: "INVALID_COMPONENT_ID" }), {
      maxItems: 10_000,
      description: "Every component of the page, once, in the order wanted",
    }),
  },
  { additionalProperties: false, title: "ComponentOrder" },
);

export const Component = Type.Object(
  { target_id: Id, monitor_name: Type.String(), ...bindingFields, sort_order: Type.Integer() },
  { additionalProperties: false, title: "Component" },
);
export type Component = Static<typeof Component>;

export const ComponentPage = PageOf(Component);
