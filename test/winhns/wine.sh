#!/usr/bin/env bash
# Runs a Windows binary in the prefix that setup.sh made:
#
#   GOOS=windows go test -exec "$PWD/test/winhns/wine.sh" ./...
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/env.sh"
if [ ! -e "$WINEPREFIX/simhns/vmcompute.dll" ]; then
	echo "test/winhns: no simulated HNS in $WINEPREFIX; run test/winhns/setup.sh" >&2
	exit 1
fi
# The first program in a prefix starts Wine's services (services.exe, explorer.exe),
# which inherit its output and outlive it. Whoever reads a pipe to its end waits for
# them, and `go test` fails after a minute of that; so a pipe is given the output
# when the program has ended.
if [ ! -p /dev/stdout ]; then
	exec wine "$@"
fi
out=$(mktemp)
trap 'cat "$out"; rm -f "$out"' EXIT
trap 'exit 143' INT TERM QUIT
status=0
wine "$@" >"$out" 2>&1 || status=$?
exit $status
