#!/bin/bash
# A node with a real container runtime, all of it below $CRIBED_DIR.
#   usage: up.sh [1.6|2.2|2.4|1.7-workloadnet|2.2-workloadnet]
#
# A containerd "-workloadnet" has cniproxy in go-cni's place: its network is ready
# when the collector that serves $WORKLOADNET_SOCKET is.
#
# The node is a network and a mount namespace. In the mount namespace
# /run/containerd, /run/netns and /var/lib/cni are the bed's own, so that beds
# share nothing with each other or with a runtime of the machine, and programs in
# the node find the socket, the pods' namespaces and libcni's results in their
# usual places.
set -euo pipefail
. "$(dirname "$0")/bed.sh"
version=${1:-1.6}

if pid=$(containerd_pid) && [ -e "$B/run/ready" ]; then
  [ "$(cat "$B/run/version")" = "$version" ] || { echo "up with $(cat "$B/run/version"): down.sh first" >&2; exit 1; }
  echo "already up: containerd $version pid $pid"
  exit 0
fi
"$HERE/down.sh" >/dev/null # half up, or crashed
"$HERE/build.sh" "$version"
mkdir -p "$B"/{run,ns,root,state,cni,logs,image,conf,node/containerd,node/netns,node/cni}
echo "$version" >"$B/run/version"

# CNI: one directory a runtime handler.
for network in bridge ptp reuse small; do
  mkdir -p "$B/conf/cni-$network"
  sed "s|@B@|$B|g" "$HERE/conf/cni-$network.conflist" >"$B/conf/cni-$network/10-$network.conflist"
done
case $version in 1.*) config=containerd-1.toml ;; *) config=containerd-2.toml ;; esac
sed "s|@B@|$B|g" "$HERE/conf/$config" >"$B/conf/config.toml"

# Not "ip netns": its exec remounts /sys and loses the cgroups. A mount
# namespace can only be pinned below a private mount.
mountpoint -q "$B/ns" || { mount --bind "$B/ns" "$B/ns"; mount --make-private "$B/ns"; }
touch "$B/ns/net" "$B/ns/mnt"
mkdir -p /run/containerd /run/netns /var/lib/cni # mount points: stay behind, empty, if they were not there
unshare --net="$B/ns/net" --mount="$B/ns/mnt" --propagation private sh -ec "
  ip link set lo up
  mount --bind '$B/node/containerd' /run/containerd
  while mountpoint -q /run/netns; do umount -l /run/netns; done # this machine's own
  mount --bind '$B/node/netns' /run/netns
  mount --bind '$B/node/cni' /var/lib/cni
  ln -sfn '$SOCKET' /run/containerd/containerd.sock"

"$HERE/containerd.sh" start

# One static busybox is both the pause and the application image.
"$CRIBED" image -o "$B/image/bed.tar" -busybox /usr/bin/busybox localhost/pause:1 localhost/busybox:1
# Debian's ctr: it talks to every containerd.
/usr/bin/ctr -a "$SOCKET" -n k8s.io images import "$B/image/bed.tar" >/dev/null

touch "$B/run/ready"
echo "up: containerd $version pid $(containerd_pid), socket $SOCKET, namespaces $B/ns/net and $B/ns/mnt"
