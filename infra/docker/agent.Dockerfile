# The agent alone. From the root of the repository:
#   docker build -f infra/docker/agent.Dockerfile -t sm-agent .
#   docker run --read-only -v sm-agent-spool:/var/lib/sm-agent -e SM_AGENT_URL=https://status.example.org \
#     -v ./agent-token:/run/secrets/agent-token:ro -e SM_AGENT_TOKEN_FILE=/run/secrets/agent-token sm-agent
FROM node:24.21.0-bookworm-slim AS build
WORKDIR /src
RUN npm install --global pnpm@10.34.8
COPY package.json pnpm-workspace.yaml pnpm-lock.yaml ./
# pnpm wants the patches before it installs.
COPY infra/patches infra/patches
COPY packages/shared/package.json packages/shared/package.json
COPY packages/agent/package.json packages/agent/package.json
COPY packages/cli/package.json packages/cli/package.json
COPY packages/control-plane/package.json packages/control-plane/package.json
COPY packages/control-plane/bin packages/control-plane/bin
COPY packages/agent/bin packages/agent/bin
COPY packages/cli/bin packages/cli/bin
COPY test/package.json test/package.json
RUN pnpm install --frozen-lockfile
COPY LICENSE tsconfig.json ./
COPY infra infra
COPY packages/shared packages/shared
COPY packages/agent packages/agent
RUN node_modules/.bin/tsc -b packages/agent \
  && node infra/scripts/pack-agent.mjs --built \
  && npm install --global --prefix /out --omit=dev .build/sm-agent-*.tgz

FROM node:24.21.0-bookworm-slim
# For ping checks. With its file capability the program could not be executed under --cap-drop ALL (EPERM); without it,
# net.ipv4.ping_group_range lets it send: container runtimes set that to every group.
RUN apt-get update && apt-get install -y --no-install-recommends iputils-ping \
  && if [ -n "$(getcap "$(command -v ping)")" ]; then setcap -r "$(command -v ping)"; fi \
  && rm -rf /var/lib/apt/lists/*
COPY --from=build /out /usr/local
RUN mkdir -p /var/lib/sm-agent && chown node:node /var/lib/sm-agent && chmod 0700 /var/lib/sm-agent
USER node
ENV SM_AGENT_SPOOL_DIR=/var/lib/sm-agent SM_AGENT_METRICS_BIND=127.0.0.1:9464 NODE_OPTIONS=--v8-pool-size=1
VOLUME /var/lib/sm-agent
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s \
  CMD ["node", "-e", "fetch('http://127.0.0.1:9464/healthz').then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["sm-agent"]
CMD ["run"]
