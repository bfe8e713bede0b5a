#!/bin/sh
# Commands of the control plane beside its unit, as the user of the service. The unit has the same settings.
export SM_CONFIG=/etc/statusmesh/statusmesh.toml SM_DATA__DIR=/var/lib/statusmesh SM_COMMAND=statusmesh
cd /var/lib/statusmesh || exit 1
exec runuser -u statusmesh -- node --enable-source-maps /opt/statusmesh/packages/control-plane/bin/statusmesh.js "$@"
