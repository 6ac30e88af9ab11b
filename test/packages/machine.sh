#!/bin/bash
# Boots systemd, this machine's own, on a copy of this machine's root directory
# that is thrown away.   usage: machine.sh CGROUP
# To be run in new mount, PID, network, UTS and IPC namespaces (machine_test.go);
# it becomes their process 1. The copy is an overlay whose
# writable layer is in memory.
set -euo pipefail

# A control group of its own, which the next step makes the root of what it sees.
if [ $# = 1 ]; then
  for hierarchy in /sys/fs/cgroup/systemd /sys/fs/cgroup/unified /sys/fs/cgroup; do
    [ -e "$hierarchy/cgroup.procs" ] || continue
    mkdir -p "$hierarchy/$1"
    echo 0 >"$hierarchy/$1/cgroup.procs"
  done
  exec unshare --cgroup "$0"
fi

memory=$(mktemp -d)
mount --make-rprivate /
mount -t tmpfs tmpfs "$memory"
root=$memory/root
mkdir "$memory"/{upper,work,root}
mount -t overlay overlay -o "lowerdir=/,upperdir=$memory/upper,workdir=$memory/work" "$root"

mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
# The hierarchies that this machine has, by which systemd chooses its own. Their
# roots are what the cgroup namespace shows.
if [ "$(stat -fc %T /sys/fs/cgroup)" = cgroup2fs ]; then
  mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
else
  mount -t tmpfs -o mode=755 tmpfs "$root/sys/fs/cgroup"
  mkdir "$root/sys/fs/cgroup/systemd"
  mount -t cgroup -o none,name=systemd cgroup "$root/sys/fs/cgroup/systemd"
fi
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
mkdir "$root"/dev/{shm,pts,mqueue}
ln -s pts/ptmx "$root/dev/ptmx"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
for device in null zero full random urandom tty; do
  touch "$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done

# Nothing but what a test starts: no service of the machine, no sysctls, no udev.
rm -f "$root"/{etc,usr/lib,lib}/systemd/system/*.target.wants/* "$root/usr/sbin/policy-rc.d"
cat >"$root/etc/systemd/system/machine.target" <<E
[Unit]
Description=A machine for tests
Wants=systemd-journald.service
E

cd "$root"
mkdir -p old
pivot_root . old
# `container` tells systemd not to be the kernel's first process.
exec chroot . /bin/sh -c 'umount -l /old; rmdir /old; mount --make-rshared /; exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin \
  /lib/systemd/systemd --unit=machine.target --show-status=0 --log-target=console --log-level=warning' </dev/null
