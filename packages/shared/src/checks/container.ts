import Type, { type Static } from "typebox";
import { AppError } from "../errors.ts";
import { described, nullable, Shape } from "../schema/shapes.ts";
import { type CheckKind, nullableText, timeout } from "./kind.ts";

const containerName = Type.String({
  pattern: "^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,254}$",
  expects: "Use the name of a container: letters, digits, dot, hyphen and underscore",
});

export const ContainerCheck = Shape("ContainerCheck", "State and health of a container of Docker or podman", {
  type: Type.Literal("container"),
  name: Type.Union([containerName, Type.Null()], {
    default: null,
    description: "Name or id of the container; null where label chooses it",
    examples: ["immich-server"],
    form: { label: "Container", hint: "Its name or id.", placeholder: "immich-server" },
  }),
  label: nullableText(300, "Label of the container, key or key=value; of several containers the worst counts", {
    label: "Or by label",
    hint: "key or key=value. Of several containers the worst counts.",
    placeholder: "com.docker.compose.service=web",
  }),
  timeout: timeout({ section: "Advanced container options" }),
});
export type ContainerCheck = Static<typeof ContainerCheck>;

export const ContainerDetails = Shape("ContainerDetails", "The container that a container check judged", {
  container: described(Type.String({ maxLength: 255 }), "Its name", "immich-server"),
  state: described(Type.String({ maxLength: 40 }), "Its state, as Docker says it", "running"),
  health: described(nullable(Type.String({ maxLength: 40 })), "State of its health check; null without one", "healthy"),
});
export type ContainerDetails = Static<typeof ContainerDetails>;

export const container: CheckKind<typeof ContainerCheck, ContainerDetails> = {
  type: "container",
  label: "Container",
  purpose: "Docker or podman, state and health",
  icon: "container",
  schema: ContainerCheck,
  minIntervalSecs: 10,
  defaultIntervalSecs: 60,
  rules({ name, label }) {
    if ((name === null) === (label === null))
      throw new AppError("INVALID_BODY", "Give either the name of a container or a label.", { field: "/name" });
  },
  // The agent's own setting decides what is connected to.
  destination: () => null,
  mapSecrets: (spec) => spec,
  secretsGoTo: () => null,
  shell: {
    subject: "<name | key=value>",
    read: (subject) => (subject.includes("=") ? { label: subject } : { name: subject }),
  },
  summary: ({ name, label }) => (name === null ? `containers with ${label}` : `container ${name}`),
  searchText: ({ name, label }) => name ?? label ?? "",
  causes: {
    container_no_socket: "the agent has no socket of Docker: start it with --docker",
    container_away: "Docker does not answer the agent: its log says why",
  },
  details: {
    schema: ContainerDetails,
    inWords: ({ container: name, state, health }) => `${name} is ${state}${health === null ? "" : ` (${health})`}`,
  },
};
