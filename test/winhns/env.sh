# The environment in which Windows binaries are run here. To be sourced, with
# $here set to this directory.
: "${WINEPREFIX:=$here/../../build/wine}"
mkdir -p "$WINEPREFIX"
WINEPREFIX=$(cd "$WINEPREFIX" && pwd)
WINEARCH=win64
WINEDEBUG=${WINEDEBUG:--all}
WINEDLLOVERRIDES="mscoree,mshtml=d" # else Wine asks whether to download them
export WINEPREFIX WINEARCH WINEDEBUG WINEDLLOVERRIDES
