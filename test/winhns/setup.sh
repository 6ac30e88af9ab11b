#!/usr/bin/env bash
# Makes a Wine prefix with a SIMULATED Host Networking Service and vfpctrl.exe in
# it, or brings an existing one up to date.
#
#   test/winhns/setup.sh            # into build/wine
#   WINEPREFIX=/elsewhere test/winhns/setup.sh
#
# It installs nothing on this machine; it says which packages it lacks.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/env.sh"

missing=
command -v wine >/dev/null || missing="$missing wine wine64"
command -v x86_64-w64-mingw32-gcc >/dev/null || missing="$missing gcc-mingw-w64-x86-64"
if [ -n "$missing" ]; then
	echo "test/winhns: Windows binaries are run under Wine, which takes these Debian packages:$missing" >&2
	echo "test/winhns: install them with: apt-get install$missing" >&2
	exit 1
fi

mkdir -p "$WINEPREFIX"
if [ ! -e "$WINEPREFIX/system.reg" ]; then
	wine wineboot -i </dev/null >/dev/null 2>&1
	# As a Windows Server 2022, not the desktop that Wine says it is.
	wine regedit /S "Z:$(echo "$here/sim/winver.reg" | tr / '\\')" >/dev/null 2>&1
fi

out="$WINEPREFIX/simhns"
mkdir -p "$out"
dll="x86_64-w64-mingw32-gcc -O2 -Wall -Werror -shared -static-libgcc"
$dll -DSIM_HCN -o "$out/computenetwork.dll" "$here/sim/simhns.c" -lole32
$dll -DSIM_HNS -o "$out/vmcompute.dll" "$here/sim/simhns.c" -lole32
x86_64-w64-mingw32-gcc -O2 -Wall -Werror -fno-stack-protector -fno-tree-loop-distribute-patterns \
	-shared -nostdlib -Wl,-e,DllMain -o "$out/bcryptprimitives.dll" "$here/sim/bcryptprimitives.c" -ladvapi32 -lkernel32
x86_64-w64-mingw32-gcc -O2 -Wall -Werror -o "$out/vfpctrl.exe" "$here/sim/vfpctrl.c"
# hcsshim loads its DLLs from system32 only. Written beside and renamed: a
# program that still runs keeps the old ones.
for f in computenetwork.dll vmcompute.dll bcryptprimitives.dll vfpctrl.exe; do
	cp "$out/$f" "$WINEPREFIX/drive_c/windows/system32/$f.new"
	mv "$WINEPREFIX/drive_c/windows/system32/$f.new" "$WINEPREFIX/drive_c/windows/system32/$f"
done
echo "test/winhns: simulated HNS in $WINEPREFIX"
