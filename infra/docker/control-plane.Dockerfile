# The control plane with its built-in agent and the embedded PostgreSQL. From the root of the repository:
#   docker build -f infra/docker/control-plane.Dockerfile -t statusmesh .
#   docker run --read-only --tmpfs /tmp -p 8080:8080 -v statusmesh-data:/var/lib/statusmesh -e SM_SERVER__PUBLIC_URL=http://localhost:8080 statusmesh
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
COPY tsconfig.json ./
COPY infra/tsconfig.base.json infra/tsconfig.base.json
COPY infra/scripts/bundle.mjs infra/scripts/bundle.mjs
COPY packages packages
# The last command creates the library links of the bundled PostgreSQL, because the final image is read-only.
RUN node_modules/.bin/tsc -b packages/control-plane packages/agent \
  && node infra/scripts/bundle.mjs \
  && rm -rf node_modules packages/*/node_modules packages/*/src \
  && pnpm install --prod --frozen-lockfile --offline --filter "@statusmesh/control-plane..." \
  && node --input-type=module -e "(await import('/src/packages/control-plane/dist/platform/db/embedded/binaries.js')).findBinaries()"

FROM node:24.21.0-bookworm-slim
# For ping checks. With its file capability the program could not be executed under --cap-drop ALL (EPERM); without it,
# net.ipv4.ping_group_range lets it send: container runtimes set that to every group.
RUN apt-get update && apt-get install -y --no-install-recommends iputils-ping \
  && if [ -n "$(getcap "$(command -v ping)")" ]; then setcap -r "$(command -v ping)"; fi \
  && rm -rf /var/lib/apt/lists/*
COPY --from=build /src /opt/statusmesh
RUN mkdir -p /var/lib/statusmesh && chown node:node /var/lib/statusmesh && chmod 0700 /var/lib/statusmesh
RUN chmod +x /opt/statusmesh/packages/control-plane/bin/statusmesh.js \
  && ln -s /opt/statusmesh/packages/control-plane/bin/statusmesh.js /usr/local/bin/statusmesh
USER node
WORKDIR /var/lib/statusmesh
ENV NODE_ENV=production SM_COMMAND=statusmesh SM_SERVER__BIND=0.0.0.0:8080 SM_DATA__DIR=/var/lib/statusmesh
VOLUME /var/lib/statusmesh
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
  CMD ["node", "-e", "fetch('http://127.0.0.1:8080/readyz').then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["node", "--enable-source-maps", "/opt/statusmesh/packages/control-plane/bin/statusmesh.js"]
CMD ["serve"]
