# Shared by infra/docker/try.sh and infra/systemd/try.sh, which set `work` to a temporary folder and run in the root of the
# repository. Builds images with buildah and runs them with podman, on Debian as root.

node_image=$(sed -n 's/^FROM \(node:[^ ]*\).*/\1/p' infra/docker/control-plane.Dockerfile | head -1)
node_version=${node_image#node:}
node_version=${node_version%%-*}
case "$(uname -m)" in x86_64) arch=x64 ;; aarch64) arch=arm64 ;; *) echo "no Node.js package for $(uname -m)"; exit 1 ;; esac

step() { printf '%s  %s\n' "$(date +%T)" "$*"; }
fail() { step "FAILED: $*"; exit 1; }
run() { podman --runtime runc --cgroup-manager cgroupfs "$@"; }
# podman runs health checks by timers of systemd, which may be absent; its default limits may exceed those of the shell.
limits=(--no-healthcheck --ulimit nofile=20000:20000 --ulimit nproc=8192:8192)
await() { # await SECONDS COMMAND…
  local until=$((SECONDS + $1)); shift
  until "$@" >/dev/null 2>&1; do [ "$SECONDS" -lt "$until" ] || return 1; sleep 0.2; done
}

# A Debian with Node.js, npm and the user node, under the name that the Dockerfiles use.
base_image() {
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
  # Where a proxy terminates TLS, its certificate is in the bundle of this machine.
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
