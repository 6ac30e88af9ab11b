# The environment in which Windows binaries are run here. To be sourced, with
# $here set to this directory.
: "${WINEPREFIX:=$here/../../build/wine}"
mkdir -p "$WINEPREFIX"
WINEPREFIX=$(cd "$WINEPREFIX" && pwd)
WINEARCH=win64
WINEDEBUG=${WINEDEBUG:--all}
WINEDLLOVERRIDES="mscoree,mshtml=d" # else Wine asks whether to download them
export WINEPREFIX WINEARCH WINEDEBUG WINEDLLOVERRIDES

# Wine's services, and a process that Wine 8 leaves behind when it is killed at its
# start, inherit every open file and outlive the program. make waits for the pipe
# of its job server until the last of them has ended. bash keeps the script in 255,
# which no other program gets.
for fd in /proc/self/fd/*; do
	fd=${fd##*/}
	case $fd in 0 | 1 | 2 | 255) continue ;; esac
	eval "exec $fd>&-"
done
unset fd
