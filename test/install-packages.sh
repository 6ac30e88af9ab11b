#!/bin/bash
# Installs the Debian packages that the tests need, or those given, and nothing
# when all are there.   usage: install-packages.sh [package...]
# No service is left running or enabled that was not before: the tests
# start their own containerd and Prometheus in namespaces of their own.
set -euo pipefail

packages=("$@")
[ $# -gt 0 ] || packages=(containerd runc containernetworking-plugins busybox-static iproute2 prometheus curl jq chromium wine wine64 gcc-mingw-w64-x86-64 systemd rpm)

installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

missing=()
for p in "${packages[@]}"; do installed "$p" || missing+=("$p"); done
[ ${#missing[@]} -gt 0 ] || exit 0

if ! command -v apt-get >/dev/null; then
  echo "install-packages: this is no Debian: install ${missing[*]} by hand" >&2; exit 1
fi
if [ "$(id -u)" != 0 ]; then
  echo "install-packages: must run as root to install ${missing[*]}" >&2; exit 1
fi
echo "install-packages: ${missing[*]}"

# A policy that forbids service starts while the packages are set up
# (invoke-rc.d and deb-systemd-invoke ask it). One that is there is put back.
policy=/usr/sbin/policy-rc.d
saved=
if [ -e $policy ] || [ -L $policy ]; then saved=$(mktemp -u $policy.XXXXXX); mv $policy "$saved"; fi
restore() {
  rm -f $policy
  [ -z "$saved" ] || mv "$saved" $policy
}
trap restore EXIT
printf '#!/bin/sh\nexit 101\n' >$policy
chmod 755 $policy

export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
# --no-remove: Debian's containerd must not push out somebody's containerd.io.
install() { apt-get install -y -q --no-install-recommends --no-remove "${missing[@]}"; }
if ! install; then
  apt-get update -q
  install || {
    echo "install-packages: apt-get could not install ${missing[*]} (see above); containerd.io from another archive conflicts with Debian's containerd and runc" >&2
    exit 1
  }
fi

# The packages enable their units for the next boot.
for p in "${missing[@]}"; do
  dpkg -L "$p" | sed -n 's|^\(/usr\)\?/lib/systemd/system/\([^/@]*\.\(service\|timer\)\)$|\2|p' | while read -r unit; do
    systemctl disable "$unit" >/dev/null 2>&1 || true
  done
  dpkg -L "$p" | sed -n 's|^/etc/init.d/||p' | while read -r script; do
    update-rc.d "$script" disable >/dev/null 2>&1 || true
  done
done
