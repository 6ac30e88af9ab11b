#!/bin/bash
# Builds what the beds need into $CRIBED_BIN: cribed, and containerd 2.x from
# the Go module proxy (2.5 minutes from a cold build cache).
#   usage: build.sh [2.2|2.4|1.7-workloadnet|2.2-workloadnet ...]
set -euo pipefail
. "$(dirname "$0")/bed.sh"

mkdir -p "$BIN"
export CGO_ENABLED=0
(cd "$HERE" && go build -trimpath -o "$CRIBED" ./cribed)
for version in "$@"; do
  case $version in
  1.6) continue ;;
  *-workloadnet) "$HERE/../attach/build.sh" "${version%-workloadnet}" "$(containerd_dir "$version")"; continue ;;
  2.2) tag=v2.2.9 ;;
  2.4) tag=v2.4.2 ;;
  *) echo "build.sh: no containerd $version: 1.6, 2.2, 2.4, 1.7-workloadnet or 2.2-workloadnet" >&2; exit 2 ;;
  esac
  dir=$(containerd_dir "$version")
  [ "$(cat "$dir/built" 2>/dev/null)" != $tag ] || continue
  mkdir -p "$dir"
  module=github.com/containerd/containerd/v2
  GOBIN=$dir nice go install -trimpath -ldflags "-s -w -X $module/version.Version=$tag" \
    $module/cmd/{containerd,containerd-shim-runc-v2}@$tag
  echo $tag >"$dir/built"
done
