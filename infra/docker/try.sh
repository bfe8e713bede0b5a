#!/usr/bin/env bash
# Builds both images without Docker and runs them, also as systemd units, on Debian as root:
#   infra/docker/try.sh
# Needs buildah, podman, runc, netavark, mmdebstrap (apt-get install) and npm. The base image comes from Debian's packages and
# the npm package node-linux-<arch>, because the registry of node:<version> may not be reachable. Takes about ten minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."

work=$(mktemp -d)
containers=(sm-try sm-try-agent sm-try-units)
cleanup() {
  podman rm --force "${containers[@]}" >/dev/null 2>&1 || true
  podman volume rm --force sm-try-data sm-try-spool >/dev/null 2>&1 || true
  rm -rf "$work"
}
trap cleanup EXIT
cleanup_only_containers() { podman rm --force "$@" >/dev/null 2>&1 || true; }

node_image=$(sed -n 's/^FROM \(node:[^ ]*\).*/\1/p' infra/docker/control-plane.Dockerfile | head -1)
node_version=${node_image#node:}
node_version=${node_version%%-*}
case "$(uname -m)" in x86_64) arch=x64 ;; aarch64) arch=arm64 ;; *) echo "no Node.js package for $(uname -m)"; exit 1 ;; esac

step() { printf '%s  %s\n' "$(date +%T)" "$*"; }
fail() { step "FAILED: $*"; exit 1; }
run() { podman --runtime runc --cgroup-manager cgroupfs "$@"; }
# Without a systemd of this machine there are no timers for health checks, and the limits of this shell may be lower than podman's.
limits=(--no-healthcheck --ulimit nofile=20000:20000 --ulimit nproc=8192:8192)
await() { # await SECONDS COMMAND…
  local until=$((SECONDS + $1)); shift
  until "$@" >/dev/null 2>&1; do [ "$SECONDS" -lt "$until" ] || return 1; sleep 0.2; done
}

base_image() { # a Debian with Node.js, npm and the user node, under the name that the Dockerfiles use
  if buildah inspect --type image "$node_image" >/dev/null 2>&1 && [ -z "${SM_TRY_FRESH:-}" ]; then return; fi
  mmdebstrap --quiet --variant=minbase --include=ca-certificates,tzdata bookworm "$work/base.tar"
  mkdir "$work/node"
  npm pack --silent --pack-destination "$work" "node-linux-$arch@$node_version" "npm@10" >/dev/null
  local container mount
  container=$(buildah from scratch)
  mount=$(buildah mount "$container")
  tar -xf "$work/base.tar" -C "$mount"
  tar -xf "$work"/node-linux-*.tgz -C "$work/node"
  install "$work/node/package/bin/node" "$mount/usr/local/bin/node"
  mkdir -p "$mount/usr/local/lib/node_modules/npm"
  tar -xf "$work"/npm-10*.tgz --strip-components=1 -C "$mount/usr/local/lib/node_modules/npm"
  ln -s ../lib/node_modules/npm/bin/npm-cli.js "$mount/usr/local/bin/npm"
  ln -s ../lib/node_modules/npm/bin/npx-cli.js "$mount/usr/local/bin/npx"
  # A proxy that terminates TLS has its certificate in the bundle of this machine.
  cp /etc/ssl/certs/ca-certificates.crt "$mount/etc/ssl/certs/ca-certificates.crt"
  chroot "$mount" useradd --create-home --uid 1000 node
  buildah umount "$container" >/dev/null
  buildah config --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    --env NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt \
    --env "npm_config_registry=$(npm config get registry)" "$container"
  buildah commit --quiet --rm "$container" "$node_image" >/dev/null
}

build() { # build NAME DOCKERFILE
  # chroot isolation runs where user namespaces are not available.
  buildah bud --quiet --pull-never --format docker --isolation chroot --network host -f "$2" -t "$1" . >"$work/build.log" 2>&1 ||
    { tail -30 "$work/build.log"; fail "building $1"; }
}

ready() { run exec sm-try node -e "fetch('http://127.0.0.1:8080/readyz').then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"; }

try_control_plane() {
  local options=(--read-only --tmpfs /tmp --network host --cap-drop ALL --security-opt no-new-privileges
    -v sm-try-data:/var/lib/statusmesh -e SM_SERVER__PUBLIC_URL=http://localhost:8080 -e SM_OPERATOR__ADMIN_TOKEN=operator-secret-of-the-try
    --name sm-try)
  run run -d "${limits[@]}" "${options[@]}" statusmesh >/dev/null
  await 60 ready || { run logs sm-try | tail -20; fail "the control plane does not become ready"; }
  [ "$(run exec sm-try id -u)" != 0 ] || fail "the control plane runs as root"
  step "ok  control plane, read-only, unprivileged, embedded PostgreSQL"
  for kill in 1 2 3; do
    run kill --signal KILL sm-try >/dev/null
    run start sm-try >/dev/null
    await 60 ready || { run logs sm-try | tail -20; fail "not ready after kill $kill"; }
  done
  step "ok  ready again after three kill -9"
}

try_agent() {
  local api=http://127.0.0.1:8080/operator token
  local headers=(-H "Authorization: Bearer operator-secret-of-the-try" -H "Content-Type: application/json")
  curl -fsS "${headers[@]}" "$api/regions" -d '{"id": "second", "name": "Second"}' >/dev/null
  token=$(curl -fsS "${headers[@]}" "$api/agents" -d '{"name": "try", "region": "second"}' |
    node -pe 'JSON.parse(require("fs").readFileSync(0, "utf8")).token')
  # The container's user reads it; the folder of the host is private.
  install -m 0444 /dev/stdin "$work/token" <<<"$token"
  run run -d "${limits[@]}" --read-only --tmpfs /tmp --network host --cap-drop ALL --security-opt no-new-privileges \
    -v sm-try-spool:/var/lib/sm-agent -v "$work/token:/run/secrets/agent-token:ro" -e SM_AGENT_URL=http://127.0.0.1:8080 \
    -e SM_AGENT_TOKEN_FILE=/run/secrets/agent-token --name sm-try-agent sm-agent >/dev/null
  await 20 run exec sm-try-agent sm-agent status --spool-dir /var/lib/sm-agent ||
    { run logs sm-try-agent | tail -20; fail "the agent does not run"; }
  step "ok  agent, read-only, unprivileged, with a spool"
}

stop_within() { # stop_within MS NAME
  local started ended
  started=$(date +%s%3N)
  run stop --time 30 "$2" >/dev/null
  ended=$(date +%s%3N)
  [ $((ended - started)) -le "$1" ] || fail "$2 took $((ended - started)) ms to stop"
  step "ok  $2 stopped in $((ended - started)) ms"
}

step "base image $node_image"
base_image
if [ -z "${SM_TRY_BUILT:-}" ]; then
  step "building"
  build statusmesh infra/docker/control-plane.Dockerfile
  build sm-agent infra/docker/agent.Dockerfile
fi
cleanup_only_containers "${containers[@]}"
step "running"
try_control_plane
try_agent
stop_within 6000 sm-try-agent
stop_within 4000 sm-try
