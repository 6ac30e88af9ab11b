#!/bin/bash
# Removes what up.sh and the pods left, also after a crash. Keeps logs and conf.
set -u
. "$(dirname "$0")/bed.sh"

if pid=$(containerd_pid); then
  timeout 300 "$CRIBED" rmall -sock "$SOCKET" -par 4 || true
  kill "$pid"
  timeout 10 tail --pid="$pid" -f /dev/null || kill -9 "$pid"
fi

# After a crash: the shims first (they would report the deaths), known by the
# bed's socket in their arguments, then what still lives in the pods' cgroups.
for cmdline in /proc/[0-9]*/cmdline; do
  if tr '\0' ' ' 2>/dev/null <"$cmdline" | grep -q -- "^[^ ]*containerd-shim-runc-v2 .*-address $SOCKET"; then
    pid=${cmdline#/proc/}
    kill -9 "${pid%/*}"
  fi
done
cgroups() { find /sys/fs/cgroup -maxdepth 3 -type d -path "/sys/fs/cgroup*$CGROUP" 2>/dev/null; }
for root in $(cgroups); do
  find "$root" -name cgroup.procs -exec cat {} + 2>/dev/null
done | sort -u | xargs -r kill -9 2>/dev/null
for root in $(cgroups); do
  for _ in $(seq 50); do
    find "$root" -depth -type d -exec rmdir {} + 2>/dev/null
    [ -d "$root" ] || break
    sleep 0.1 # a cgroup can be removed only when its last process has been reaped
  done
done

# What else was started in the node: programs under test of a run that crashed.
if mountpoint -q "$B/ns/net" 2>/dev/null; then
  node=$(stat -c %i "$B/ns/net")
  find /proc/[0-9]*/ns/net -lname "net:\[$node\]" 2>/dev/null | cut -d/ -f3 | xargs -r kill -9 2>/dev/null
fi

# The mounts of the pods live in the node's mount namespace and go with it.
for pin in net mnt; do umount "$B/ns/$pin" 2>/dev/null; done
umount "$B/ns" 2>/dev/null
rm -rf "$B"/{root,state,run,ns,cni,node,image}
echo down
