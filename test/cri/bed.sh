# Paths and small functions of the bed, for up.sh, containerd.sh and down.sh.
#
#   CRIBED_DIR  the bed's state, one directory a bed (default /tmp/cribed)
#   CRIBED_BIN  binaries built for beds, shared by all of them
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
B=${CRIBED_DIR:-/tmp/cribed}
BIN=${CRIBED_BIN:-$(cd "$HERE/../.." && pwd)/bin/testbeds}
SOCKET=$B/run/containerd.sock
CGROUP=/cribed${B//\//-} # every process of the bed's pods is below it
CRIBED=$BIN/cribed

# containerd_pid prints the pid of the bed's containerd, if it runs.
containerd_pid() {
  local p
  p=$(cat "$B/run/containerd.pid" 2>/dev/null) || return 1
  grep -qzF "$B/conf/config.toml" "/proc/$p/cmdline" 2>/dev/null || return 1
  echo "$p"
}

# containerd_dir prints the directory of the binaries of a containerd version.
containerd_dir() {
  case $1 in
  1.6) echo /usr/bin ;; # Debian's package
  *) echo "$BIN/containerd-$1" ;;
  esac
}
