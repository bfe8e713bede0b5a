import Type, { type Static, type TSchema } from "typebox";
import { Line, Lines } from "@statusmesh/shared/text";
import {
  Closed,
  described,
  Flag,
  Id,
  Integer,
  ManagedBy,
  ignoredWhenSent,
  nullable,
  OneOf,
  PageOf,
  Shape,
  Text,
  Timestamp,
  TimeZoneName,
} from "../../platform/http/wire.ts";
import { languages } from "../languages/schema.ts";
import { Access, AccessInput } from "./access/schema.ts";
import { Publish, PublishInput } from "./publish-schema.ts";

const WebAddress = Type.String({
  maxLength: 500,
  pattern: '^https?://[^\\s/?#@:%<>^`{|}"\\[\\]\\\\]+(:\\d{1,4})?([/?#][^\\s\\\\]*)?$',
  expects: "Enter a URL that begins with https:// or http://, like https://example.org/",
  description: "An http or https address",
  examples: ["https://example.org/"],
});

const displayName = Line({
  maxLength: 80,
  description: "Heading of the page; null shows the page's name",
  examples: ["Acme status"],
});
const about = Lines({
  maxLength: 500,
  description: "A few words for visitors, in Markdown: paragraphs, lists, emphasis, code and links",
  examples: ["How **Acme** is doing."],
});
const brandColor = Type.String({
  pattern: "^#[0-9A-Fa-f]{6}$",
  expects: "Use # and six hexadecimal digits, like #2557D6",
  description: "#RRGGBB",
  examples: ["#2557D6"],
});

const brandingFields = {
  display_name: nullable(displayName),
  about: nullable(about),
  brand_color: nullable(brandColor),
  style: OneOf(["light", "dark", "auto"], "auto follows the visitor's system", "auto"),
  show_powered_by: Flag('Shows "Powered by StatusMesh" at the end of the page'),
  website_url: nullable(WebAddress),
  hide_from_search: Flag("Asks search engines not to list the page", false),
  timezone: described(TimeZoneName, "IANA time zone in which a day of the history begins"),
  language: OneOf(
    [...languages, "auto"],
    "Language of the page's own texts; auto: the first of `languages` that the visitor's browser prefers",
    "en",
  ),
  languages: nullable(
    Type.Array(OneOf(languages, "A language", "en"), {
      minItems: 2,
      maxItems: languages.length,
      uniqueItems: true,
      description: "The languages of an `auto` page; the first is that of its data and of other visitors. Else null",
      examples: [["en", "de"]],
    }),
  ),
};

export const Branding = Shape("Branding", "Appearance and texts of the page", brandingFields);
export type Branding = Static<typeof Branding>;

const withDefault = <S extends TSchema>(schema: S, value: Static<S>) =>
  Type.Optional(Type.Unsafe<Static<S>>({ ...schema, default: value }));

/** Branding in a request: omitted fields take their default. */
const BrandingInput = Shape("BrandingInput", "Replaces the whole branding: omitted fields take their default", {
  display_name: withDefault(brandingFields.display_name, null),
  about: withDefault(brandingFields.about, null),
  brand_color: withDefault(brandingFields.brand_color, null),
  style: withDefault(brandingFields.style, "auto"),
  show_powered_by: withDefault(brandingFields.show_powered_by, true),
  website_url: withDefault(brandingFields.website_url, null),
  hide_from_search: withDefault(brandingFields.hide_from_search, false),
  timezone: withDefault(brandingFields.timezone, "UTC"),
  language: withDefault(brandingFields.language, "en"),
  languages: withDefault(brandingFields.languages, null),
});
export type BrandingInput = Static<typeof BrandingInput>;

/** Second names of fields of the branding in requests: those of the Terraform provider uptimepage/uptimepage. */
const secondName = <S extends TSchema>(schema: S, name: string) =>
  Type.Optional(
    nullable(Type.Unsafe<Static<S>>({ ...schema, description: `Second name of ${name}; null: its default` })),
  );

/** The branding of an API request. The five fields with two names have no schema default, so that both are noticed. */
const BrandingRequest = Shape(
  "BrandingRequest",
  "Replaces the whole branding: omitted fields take their default, those of a new page",
  {
    ...BrandingInput.properties,
    display_name: Type.Optional(brandingFields.display_name),
    about: Type.Optional(brandingFields.about),
    brand_color: Type.Optional(brandingFields.brand_color),
    style: Type.Optional(brandingFields.style),
    show_powered_by: Type.Optional(brandingFields.show_powered_by),
    public_display_name: secondName(displayName, "display_name"),
    public_about: secondName(about, "about"),
    public_brand_color: secondName(brandColor, "brand_color"),
    public_style: secondName(
      OneOf(["light", "dark", "auto", "default", ""], "", "auto"),
      "style, where default and the empty text are auto",
    ),
    public_show_powered_by: secondName(brandingFields.show_powered_by, "show_powered_by"),
  },
);
export type BrandingRequest = Static<typeof BrandingRequest>;

const pageFields = {
  slug: Type.String({
    pattern: "^[a-z0-9](?:[a-z0-9-]{0,58}[a-z0-9])?$",
    expects: "Use 1 to 60 letters, digits or hyphens, with a letter or digit at both ends",
    errorCode: "INVALID_SLUG",
    description: "1 to 60 of a-z, 0-9 and -, with no hyphen at its ends; no other page has it",
    examples: ["acme"],
  }),
  name: Line({ maxLength: 80, emptyCode: "EMPTY_NAME", description: "1 to 80 characters", examples: ["Acme"] }),
  enabled: Flag("Whether visitors see the page"),
  subscriptions_enabled: Flag("Whether visitors can subscribe to updates"),
  embed_origins: Type.Array(
    Type.String({
      maxLength: 300,
      pattern: "^https?://[a-z0-9.-]{1,253}(:\\d{1,5})?$",
      expects: "Enter an origin, like https://www.example.org",
      description: "Scheme, host and port if it is no default",
      examples: ["https://www.example.org"],
    }),
    {
      maxItems: 20,
      uniqueItems: true,
      description: "Origins of web pages that may show /status/{slug}/embed in a frame",
      examples: [[]],
    },
  ),
  custom_css: nullable(
    Lines({
      maxLength: 32_768,
      errorCode: "INVALID_CSS",
      emptyIsNull: true,
      description: "Style sheet of the page, at most 32 KiB. What loads something is refused. Null for none",
      examples: [".masthead { border-bottom: 1px solid }"],
    }),
  ),
};

export const StatusPageCreate = Shape("StatusPageCreate", "A new page", {
  slug: pageFields.slug,
  name: pageFields.name,
  enabled: withDefault(pageFields.enabled, true),
  subscriptions_enabled: withDefault(pageFields.subscriptions_enabled, true),
  embed_origins: withDefault(pageFields.embed_origins, []),
  custom_css: withDefault(pageFields.custom_css, null),
  branding: Type.Optional(BrandingInput),
  access: Type.Optional(AccessInput),
  publish: Type.Optional(PublishInput),
  managed_by: ignoredWhenSent,
});
export type StatusPageCreate = Static<typeof StatusPageCreate>;

/** A new page in an API request. */
export const StatusPageRequest = Shape("StatusPageRequest", "A new page", {
  ...StatusPageCreate.properties,
  branding: Type.Optional(BrandingRequest),
});

export const StatusPagePatch = Closed(
  {
    custom_domain: Type.Optional(
      nullable(
        Type.String({
          maxLength: 253,
          minLength: 1,
          description: "Host name of the page; it serves the page once its TXT record proves it. Null removes it",
          examples: ["status.acme.dev"],
        }),
      ),
    ),
    slug: Type.Optional(pageFields.slug),
    name: Type.Optional(pageFields.name),
    enabled: Type.Optional(pageFields.enabled),
    subscriptions_enabled: Type.Optional(pageFields.subscriptions_enabled),
    embed_origins: Type.Optional(pageFields.embed_origins),
    custom_css: Type.Optional(pageFields.custom_css),
    branding: Type.Optional(BrandingRequest),
    access: Type.Optional(AccessInput),
    publish: Type.Optional(PublishInput),
    managed_by: ignoredWhenSent,
  },
  {
    title: "StatusPagePatch",
    description: "Fields to change; branding, access and publish are replaced as a whole when present",
    examples: [{ enabled: true, branding: { display_name: "Acme status", brand_color: "#2557D6" } }],
  },
);
export type StatusPagePatch = Omit<Static<typeof StatusPagePatch>, "branding"> & { branding?: BrandingInput };

const CustomDomain = Shape("CustomDomain", "How a custom domain is proved", {
  verified: Flag("Whether the domain is proved and serves the page", false),
  record: Closed(
    {
      type: OneOf(["TXT"], "Type of the record"),
      name: Text("Name of the record", "_statusmesh.status.acme.dev"),
      value: Text("Value of the record", "statusmesh-verify=Kp3vX9dQ2mZ7rT1s"),
    },
    { description: "The DNS record that proves the domain" },
  ),
  checked_at: nullable(described(Timestamp, "Time of the last check of the record; null before it")),
  error: nullable(Text("Error of that check; null: none", "There is no TXT record at _statusmesh.status.acme.dev.")),
});
export type CustomDomain = Static<typeof CustomDomain>;

export const StatusPage = Shape("StatusPage", "A page for visitors, as its operators see it", {
  id: Id,
  ...pageFields,
  branding: Branding,
  access: Access,
  publish: Publish,
  status_url: nullable(
    Text("Where visitors find the page; null while no address serves it", "https://status.example.org/status"),
  ),
  logo_url: nullable(Text("Address of the logo; null without one", null)),
  logo_dark_url: nullable(Text("Address of the logo for dark mode; null shows the logo there too", null)),
  custom_domain: nullable(Text("Host name of the page; null for none", null)),
  custom_domain_proof: nullable(CustomDomain),
  managed_by: ManagedBy,
  created_at: Timestamp,
  updated_at: Timestamp,
});
export type StatusPage = Static<typeof StatusPage>;

/** The reply to a change. */
export const ChangedStatusPage = Shape("ChangedStatusPage", "A page after a change", {
  ...StatusPage.properties,
  subscribers_outside: Integer(
    "Confirmed subscribers from before the page was private. They get nothing more unless they are kept",
    0,
  ),
});

export const StatusPagePage = PageOf(StatusPage);

export const LogoUpload = Shape("LogoUpload", "A logo for the page", {
  image: Type.String({
    maxLength: 1_000_000,
    pattern: "^[A-Za-z0-9+/]+={0,2}$",
    expects: "Send the file as base64, or its bytes as the body with their content type",
    description: "PNG, JPEG or WebP, base64. A larger file is sent as multipart/form-data or as it is",
    examples: ["iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="],
  }),
});

const bindingFields = {
  public_name: nullable(
    Line({
      maxLength: 200,
      description: "Null shows the monitor's name",
      examples: ["Checkout"],
    }),
  ),
  public_description: nullable(
    Line({
      maxLength: 500,
      description: "A line below the name; null shows none",
      examples: ["Cart and payment"],
    }),
  ),
  public_group: nullable(
    Line({
      maxLength: 80,
      description: "Components with the same group are shown together; ungrouped components come last",
      examples: ["Shop"],
    }),
  ),
};

const showFields = {
  uptime: Flag("Uptime in percent"),
  latency: Flag("Response times: a page of the component with percentiles and a chart, and the badge", false),
  certificate: Flag("The badge of the days until the certificate expires", false),
};
const Show = Shape("ComponentShow", "Figures that visitors see. Others are null or absent everywhere", showFields);
export type Show = Static<typeof Show>;
const ShowInput = Shape("ComponentShowInput", "Figures that visitors see: omitted ones take their default", {
  uptime: withDefault(showFields.uptime, true),
  latency: withDefault(showFields.latency, false),
  certificate: withDefault(showFields.certificate, false),
});

/** States that a person or a program sets. */
export const manualStates = ["operational", "degraded", "partial_outage", "major_outage", "maintenance"] as const;
export type ManualState = (typeof manualStates)[number];

const state = OneOf(
  manualStates,
  "State of a component without a monitor, set manually or through the API",
  "operational",
);
const position = Type.Optional(
  Type.Integer({
    minimum: 0,
    maximum: 1_000_000,
    description: "Position on the page, ascending, kept as it is sent; equal ones are ordered by id",
    examples: [10],
  }),
);
const manual = Type.Literal(true, { description: "A component without a monitor" });

export const ComponentCreate = Closed(
  {
    target_id: Type.Optional(described(Id, "The monitor; left out for a component without one")),
    manual: Type.Optional(manual),
    state: withDefault(state, "operational"),
    public_name: withDefault(bindingFields.public_name, null),
    public_description: withDefault(bindingFields.public_description, null),
    public_group: withDefault(bindingFields.public_group, null),
    show: Type.Optional(ShowInput),
    sort_order: position,
  },
  {
    title: "ComponentCreate",
    description: "A monitor to add to the page, or with manual a component without one, and its public texts",
    examples: [{ manual: true, public_name: "Telephone", state: "operational" }],
  },
);
export type ComponentCreate = Static<typeof ComponentCreate>;

export const ComponentBulk = Shape("ComponentBulk", "Monitors to add to the page, in one group", {
  target_ids: Type.Array(Id, {
    minItems: 1,
    maxItems: 1000,
    description: "Monitors in the order wanted; those on the page already stay as they are",
  }),
  public_group: withDefault(bindingFields.public_group, null),
});
export type ComponentBulk = Static<typeof ComponentBulk>;

export const ComponentPatch = Closed(
  {
    state: Type.Optional(state),
    public_name: Type.Optional(bindingFields.public_name),
    public_description: Type.Optional(bindingFields.public_description),
    public_group: Type.Optional(bindingFields.public_group),
    show: Type.Optional(ShowInput),
    sort_order: position,
  },
  {
    title: "ComponentPatch",
    description: "Omitted fields stay unchanged; null restores the default",
    examples: [{ public_name: "Checkout", public_group: null }],
  },
);
export type ComponentPatch = Static<typeof ComponentPatch>;

export const ComponentOrder = Shape("ComponentOrder", "The order of the components", {
  target_ids: Type.Array(Type.Unsafe<string>({ ...Id, errorCode: "INVALID_COMPONENT_ID" }), {
    maxItems: 10_000,
    description: "Ids of every component of the page, once, in the order wanted",
  }),
});

export const Component = Shape(
  "Component",
  "A monitor on a page, or a component without one, which has manual and state",
  {
    id: described(Id, "That of its monitor; its own without one"),
    target_id: nullable(described(Id, "The monitor; null without one")),
    monitor_name: nullable(Text("Name of the target; null without one", "Shop")),
    ...bindingFields,
    show: Show,
    sort_order: Integer("Position on the page, ascending", 0),
    manual: Type.Optional(manual),
    state: Type.Optional(state),
  },
);
export type Component = Static<typeof Component>;

export const ComponentPage = PageOf(Component);
