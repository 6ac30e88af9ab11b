#!/bin/bash
# Starts the bed's containerd and waits until its CRI service and, unless that is
# a collector's, its network are ready; or kills it with SIGKILL, leaving the pods alone.
#   usage: containerd.sh start|kill
set -euo pipefail
. "$(dirname "$0")/bed.sh"

case ${1:-} in
start)
  dir=$(containerd_dir "$(cat "$B/run/version")")
  PATH=$dir:$PATH setsid nsenter --net="$B/ns/net" --mount="$B/ns/mnt" \
    "$dir/containerd" --config "$B/conf/config.toml" >>"$B/logs/containerd.log" 2>&1 </dev/null &
  echo $! >"$B/run/containerd.pid"
  case $(cat "$B/run/version") in *-workloadnet) network=false ;; *) network=true ;; esac
  if ! "$CRIBED" ready -sock "$SOCKET" -timeout 20s -network=$network; then
    tail -20 "$B/logs/containerd.log" >&2
    exit 1
  fi
  ;;
kill)
  pid=$(containerd_pid) || { echo "containerd.sh: not running" >&2; exit 1; }
  kill -9 "$pid"
  tail --pid="$pid" -f /dev/null # returns when it is gone
  ;;
*)
  echo "usage: containerd.sh start|kill" >&2
  exit 2
  ;;
esac
