#!/usr/bin/env bash
# Runs the systemd units under a systemd in a container, and checks how they start, stop and restart. On Debian as root:
#   infra/systemd/try.sh                 the units, on the programs of the images: three minutes, with their build thirteen
#   infra/systemd/try.sh --deb FOLDER    the Debian packages of a release, also upgraded, removed and purged: three minutes
# Requirements as for infra/docker/try.sh.
#   SM_TRY_BUILT=1 uses images of an earlier run; SM_TRY_FRESH=1 makes the base images again.
set -euo pipefail
debs=
case "${1:-}" in
  '') ;;
  --deb) debs=$(cd "${2:?--deb needs the folder of the packages}" && pwd) ;;
  *) echo "usage: $0 [--deb FOLDER]" >&2; exit 2 ;;
esac
cd "$(dirname "$0")/../.."

work=$(mktemp -d)
name=sm-try-units
cleanup() {
  podman rm --force "$name" >/dev/null 2>&1 || true
  rm -rf "$work"
}
trap cleanup EXIT
. infra/docker/lib.sh

# Debian with systemd; kept for the next run.
systemd_image() {
  if buildah inspect --type image localhost/sm-try-systemd >/dev/null 2>&1 && [ -z "${SM_TRY_FRESH:-}" ]; then return; fi
  local container packages=systemd,systemd-sysv,procps,ca-certificates,tzdata,openssl,iputils-ping
  mmdebstrap --quiet --variant=minbase --include=$packages bookworm "$work/systemd.tar"
  container=$(buildah from scratch)
  tar -xf "$work/systemd.tar" -C "$(buildah mount "$container")"
  buildah commit --quiet --rm "$container" sm-try-systemd >/dev/null
}

# What both ways of installing have in common.
units_image() {
  local container mount
  container=$(buildah from --pull-never localhost/sm-try-systemd)
  mount=$(buildah mount "$container")
  # The secret of the operator's API, which makes the agent's token.
  install -D -m 0644 /dev/stdin "$mount/etc/systemd/system/statusmesh.service.d/try.conf" <<<"[Service]
Environment=SM_OPERATOR__ADMIN_TOKEN=operator-secret-of-the-try"
  # The container has neither hardware nor a console.
  rm -f "$mount"/etc/systemd/system/getty.target.wants/*
  if [ -n "$debs" ]; then copy_packages "$mount"; else copy_units "$mount"; fi
  buildah umount "$container" >/dev/null
  buildah commit --quiet --rm "$container" sm-try-units >/dev/null
}

# The packages, and Node.js as one: that of Debian 12 is too old.
copy_packages() { # copy_packages ROOT
  mkdir -p "$work/nodejs/DEBIAN" "$work/nodejs/usr/bin" "$1/root/debs"
  npm pack --silent --pack-destination "$work" "node-linux-$arch@$node_version" >/dev/null
  tar -xf "$work"/node-linux-*.tgz -C "$work" package/bin/node
  install "$work/package/bin/node" "$work/nodejs/usr/bin/node"
  printf '%s\n' 'Package: nodejs' "Version: $node_version" "Architecture: $(dpkg --print-architecture)" \
    'Maintainer: try.sh' 'Description: Node.js' >"$work/nodejs/DEBIAN/control"
  dpkg-deb --root-owner-group --build "$work/nodejs" "$1/root/debs/nodejs.deb" >/dev/null
  cp "$debs"/statusmesh_*.deb "$1/root/debs/statusmesh.deb"
  cp "$debs"/sm-agent_*.deb "$1/root/debs/sm-agent.deb"
}

# The programs of both images, and the units by the instructions in their headers.
copy_units() { # copy_units ROOT
  local mount=$1 from image
  for image in statusmesh sm-agent; do
    from=$(buildah from --pull-never "localhost/$image")
    cp -a "$(buildah mount "$from")/opt/." "$mount/opt/"
    # Node.js and the links of the commands.
    cp -a "$(buildah mount "$from")/usr/local/." "$mount/usr/local/"
    buildah rm "$from" >/dev/null
  done
  install -m 0644 infra/systemd/*.service -t "$mount/etc/systemd/system/"
  install -D -m 0644 infra/systemd/statusmesh.sysusers.conf "$mount/etc/sysusers.d/statusmesh.conf"
  install -m 0755 infra/systemd/statusmesh.sh "$mount/usr/local/bin/statusmesh"
  install -d -m 0755 "$mount/etc/statusmesh"
  install -m 0600 /dev/stdin "$mount/etc/statusmesh/kek" <<<"$(head -c 32 /dev/urandom | base64)"
  configure "$mount/etc/statusmesh/statusmesh.toml"
  echo 'SM_AGENT_URL=http://127.0.0.1:8080' >"$mount/etc/statusmesh/agent.env"
}

configure() { printf '[server]\npublic_url = "http://localhost:8080"\n' >"$1"; }
put_settings() {
  configure "$work/toml"
  run cp "$work/toml" "$name:/etc/statusmesh/statusmesh.toml"
}

inside() { run exec "$name" "$@"; }
property() { inside systemctl show --value --property "$2" "$1"; }
answers() {
  inside node -e "fetch('http://127.0.0.1:8080$1').then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"
}
is() { [ "$(property "$1" "$2")" = "$3" ]; }
more() { [ "$(property "$1" "$2")" -ge "$3" ]; }
explain() {
  inside journalctl --no-pager --lines 30 --unit "$1" || true
  fail "$2"
}

install_packages() {
  inside dpkg --install /root/debs/nodejs.deb /root/debs/statusmesh.deb /root/debs/sm-agent.deb >/dev/null
  is statusmesh ActiveState inactive || explain statusmesh "the package starts the service before it is set up"
  is statusmesh UnitFileState disabled || fail "the package enables the service"
  inside sh -c '[ "$(stat -c "%U %a" /etc/statusmesh/kek)" = "root 600" ]' || fail "the key is not root's alone"
  inside getent passwd statusmesh >/dev/null || fail "the package makes no user"
  inside sh -c '[ "$(cut -f2 /proc/sys/net/ipv4/ping_group_range)" = 2147483647 ]' || fail "ping checks cannot be sent"
  put_settings
  inside sh -c "echo 'SM_AGENT_URL=http://127.0.0.1:8080' >/etc/statusmesh/agent.env"
  step "ok  the packages are installed, with a key and a user, and the services are stopped"
}

# Conditions of the kernel for a process: no privileges, no way to get them, filtered system calls.
check_sandbox() { # check_sandbox UNIT
  inside awk -v want='CapEff 0000000000000000 NoNewPrivs 1 Seccomp 2' '
    /^(CapEff|NoNewPrivs|Seccomp):/ { sub(":", "", $1); found = found (found == "" ? "" : " ") $1 " " $2 }
    END { if (found != want) { print found; exit 1 } }' "/proc/$(property "$1" MainPID)/status" ||
    fail "$1 has privileges, or no filter of system calls"
  step "ok  $1 without privileges; exposure $(inside systemd-analyze security "$1.service" 2>/dev/null |
    sed -n 's/.*Overall exposure level for [^:]*: *\([0-9.]*\).*/\1/p') of 10"
}

check_start() {
  local units=/etc/systemd/system
  if [ -n "$debs" ]; then units=/lib/systemd/system; fi
  inside systemd-analyze verify "$units/statusmesh.service" "$units/sm-agent.service" ||
    fail "systemd-analyze verify finds mistakes"
  step "ok  systemd-analyze verify"
  if [ -z "$debs" ]; then inside systemd-sysusers; fi
  inside systemctl start statusmesh
  await 90 answers /readyz || explain statusmesh "the control plane does not become ready"
  inside sh -c '! ls /lib/*/libnss_systemd.so.2 2>/dev/null' || fail "libnss-systemd is installed"
  [ "$(inside stat -c %U "/proc/$(property statusmesh MainPID)")" = statusmesh ] || fail "it runs as another user"
  inside pgrep -u statusmesh -f /var/lib/statusmesh/postgres >/dev/null || fail "there is no embedded PostgreSQL"
  step "ok  starts as user statusmesh, with the embedded PostgreSQL and without libnss-systemd"
  inside statusmesh doctor >/dev/null || explain statusmesh "the command statusmesh does not work"
  step "ok  statusmesh doctor, from root"
  check_sandbox statusmesh
}

check_reload() { # check_reload UNIT
  local pid
  pid=$(property "$1" MainPID)
  inside systemctl reload "$1"
  sleep 1
  is "$1" MainPID "$pid" || explain "$1" "$1 does not survive a reload"
  step "ok  systemctl reload $1"
}

check_kill() { # check_kill UNIT TEST…
  local unit=$1 restarts; shift
  restarts=$(property "$unit" NRestarts)
  inside kill -9 "$(property "$unit" MainPID)"
  await 60 more "$unit" NRestarts $((restarts + 1)) || explain "$unit" "$unit is not restarted after kill -9"
  await 60 "$@" || explain "$unit" "$unit is not ready after kill -9"
  step "ok  $unit is restarted after kill -9, and ready"
}

check_stop() { # check_stop UNIT: SIGTERM, as systemctl stop sends it
  local started ended
  started=$(date +%s%3N)
  inside systemctl stop "$1"
  ended=$(date +%s%3N)
  is "$1" Result success || explain "$1" "$1 ends with $(property "$1" Result)"
  is "$1" ExecMainStatus 0 || explain "$1" "$1 ends with $(property "$1" ExecMainStatus)"
  step "ok  $1 stopped in $((ended - started)) ms, exit 0"
}

check_stop_during_start() {
  local delay
  for delay in 0 0.2 0.5 1; do
    inside systemctl start --no-block statusmesh
    sleep "$delay"
    inside systemctl stop statusmesh
    is statusmesh Result success || explain statusmesh "stopped $delay s after its start it ends with $(property statusmesh Result)"
  done
  inside sh -c '! pgrep -u statusmesh' || fail "processes are left after a stop during the start"
  step "ok  a stop during the start"
}

check_invalid_configuration() {
  local restarts
  inside sh -c 'echo "unknown = 1" >/etc/statusmesh/statusmesh.toml'
  inside systemctl start statusmesh || true
  await 30 is statusmesh ActiveState failed || explain statusmesh "an invalid configuration does not fail the unit"
  is statusmesh ExecMainStatus 78 || explain statusmesh "the exit code is $(property statusmesh ExecMainStatus), not 78"
  restarts=$(property statusmesh NRestarts)
  # More than RestartSec.
  sleep 6
  is statusmesh NRestarts "$restarts" || explain statusmesh "it is restarted after exit 78"
  is statusmesh ActiveState failed || explain statusmesh "it does not stay failed after exit 78"
  step "ok  exit 78 for an invalid configuration, no restart"
  put_settings
  inside systemctl reset-failed statusmesh
}

check_database_away() {
  local dropin=/etc/systemd/system/statusmesh.service.d/away.conf restarts
  inside sh -c "printf '[Service]\nEnvironment=SM_DATABASE__URL=postgres://u:p@127.0.0.1:1/sm\n' >$dropin"
  inside systemctl daemon-reload
  restarts=$(property statusmesh NRestarts)
  inside systemctl start statusmesh || true
  await 60 more statusmesh NRestarts $((restarts + 2)) || explain statusmesh "it is not restarted while the database is away"
  inside journalctl --no-pager --unit statusmesh | grep -q 'status=75' || explain statusmesh "the exit code is not 75"
  inside rm "$dropin"
  inside systemctl daemon-reload
  await 60 answers /readyz || explain statusmesh "it is not ready after the database is back"
  step "ok  exit 75 while the database is away, restarted until it is back"
}

check_agent() {
  local token
  token=$(inside node -e '
    const ask = async (path, json) => {
      const headers = { authorization: "Bearer operator-secret-of-the-try", "content-type": "application/json" };
      const reply = await fetch(`http://127.0.0.1:8080/operator/${path}`, { method: "POST", headers, body: JSON.stringify(json) });
      return await reply.json();
    };
    await ask("regions", { id: "second", name: "Second" });
    console.log((await ask("agents", { name: "try", region: "second" })).token);
  ' --input-type=module)
  inside sh -c "umask 077; echo '$token' >/etc/statusmesh/agent-token"
  inside systemctl start sm-agent
  await 30 agent_reports || explain sm-agent "the agent does not run"
  step "ok  sm-agent starts as a dynamic user, with its token as a credential"
  check_sandbox sm-agent
}
agent_reports() { inside sm-agent status --spool-dir /var/lib/sm-agent; }

# An upgrade, a removal and a new installation, which finds what the first one stored; a purge.
check_packages() {
  local pid org
  inside systemctl enable --now statusmesh >/dev/null 2>&1
  await 60 answers /readyz || explain statusmesh "it does not start at boot's order"
  org=$(inside statusmesh orgs --json)
  pid=$(property statusmesh MainPID)
  inside dpkg --install /root/debs/statusmesh.deb /root/debs/sm-agent.deb >/dev/null
  [ "$(property statusmesh MainPID)" != "$pid" ] || fail "an upgrade does not restart a running service"
  is sm-agent ActiveState inactive || fail "an upgrade starts a stopped service"
  await 60 answers /readyz || explain statusmesh "it is not ready after an upgrade"
  step "ok  an upgrade restarts what runs"
  inside dpkg --remove statusmesh sm-agent >/dev/null 2>&1
  inside sh -c '! pgrep -u statusmesh' || fail "processes are left after the removal"
  inside sh -c '! ls -d /opt/statusmesh /opt/sm-agent /etc/systemd/system/*.wants/statusmesh.service 2>/dev/null' ||
    fail "files are left after the removal"
  inside test -e /etc/statusmesh/kek -a -d /var/lib/statusmesh/postgres || fail "the removal deletes key or data"
  inside dpkg --install /root/debs/statusmesh.deb /root/debs/sm-agent.deb >/dev/null
  inside systemctl start statusmesh
  await 60 answers /readyz || explain statusmesh "it does not start on the data of before"
  [ "$(inside statusmesh orgs --json)" = "$org" ] || fail "the data of before are not there"
  step "ok  removed and installed again: key and data stay"
  inside dpkg --purge statusmesh sm-agent >/dev/null 2>&1
  inside sh -c '! ls -d /opt/statusmesh /etc/statusmesh/statusmesh.toml /etc/statusmesh/agent.env 2>/dev/null' ||
    fail "files are left after the purge"
  inside test -e /etc/statusmesh/kek -a -d /var/lib/statusmesh/postgres || fail "the purge deletes key or data"
  step "ok  purged: settings are gone, key and data stay"
}

if [ -z "${SM_TRY_BUILT:-}${debs}" ]; then
  step "building the images"
  base_image
  build statusmesh infra/docker/control-plane.Dockerfile
  build sm-agent infra/docker/agent.Dockerfile
fi
step "image with systemd"
systemd_image
units_image
podman rm --force "$name" >/dev/null 2>&1 || true
# Privileged: systemd sets up namespaces and control groups for the units. Shared mounts: credentials are mounted by a
# helper process in a namespace of its own, and in a container systemd leaves the propagation as it is.
run run -d "${limits[@]}" --privileged --systemd always --network host --name "$name" localhost/sm-try-units \
  sh -c 'mount --make-rshared / && exec /sbin/init' >/dev/null
await 60 inside systemctl is-system-running --wait || inside systemctl is-system-running | grep -q degraded || fail "systemd does not start"
step "$(inside systemctl --version | head -1), $(podman --version), $(runc --version | head -1)"
if [ -n "$debs" ]; then install_packages; fi
check_start
check_agent
check_reload statusmesh
check_reload sm-agent
check_kill statusmesh answers /readyz
check_kill sm-agent agent_reports
check_stop sm-agent
check_stop statusmesh
check_stop_during_start
check_invalid_configuration
check_database_away
check_stop statusmesh
if [ -n "$debs" ]; then check_packages; fi
