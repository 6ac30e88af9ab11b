#!/bin/sh
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
exec wine "$@"
