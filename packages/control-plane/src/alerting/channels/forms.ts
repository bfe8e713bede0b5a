import { formOf } from "../../platform/html/schema-fields.ts";
import { channelKinds, isChannelType } from "./kinds/index.ts";
import type { ChannelKind } from "./kinds/kind.ts";

const forms = Object.values(channelKinds).flatMap((kind: ChannelKind) =>
  kind.managed === true
    ? []
    : [{ type: kind.type, label: kind.label, form: formOf(kind.schema, { base: "/config", scope: kind.type }) }],
);

/** Forms of the kinds that have one; managed kinds are connected with a code. */
export const channelForms = () => forms;

/** Display name of a kind; the type for an unknown kind. */
export const kindLabel = (type: string): string => (isChannelType(type) ? channelKinds[type].label : type);
