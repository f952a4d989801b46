#!/usr/bin/env bash
# Runs a server as the hardened service of Debian and Ubuntu does (NoExecPaths=/, ExecPaths= the server,
# /usr/lib and /lib) with ROOT as its root, and prints what it answers to MQ.ENQUEUE.
#
# usage: hardened.sh ROOT SERVER MODULE    in a mount namespace of its own, as root
set -euo pipefail
# The root has no locales.
export LC_ALL=C
root=$1 server=$2 module=$3

mkdir -p "$root"/{usr/bin,usr/lib,tmp,proc,dev}
[ -e "$root/lib" ] || ln -s usr/lib "$root/lib"
[ -e "$root/lib64" ] || ln -s usr/lib "$root/lib64"
install -m 755 "$server" "$root/usr/bin/redis-server"
# What the linker finds: the loader by its path, the libraries by their names.
ldd "$server" "$root$module" | grep -o '/[^ ]*' | grep '\.so' | grep -v "^$root" | sort -u |
    while read -r library; do cp -L "$library" "$root/usr/lib/"; done
mount --bind "$root" "$root"
mount --bind "$root/usr/lib" "$root/usr/lib"
mount --bind "$root/usr/bin/redis-server" "$root/usr/bin/redis-server"
mount -o remount,bind,noexec "$root"
for exec in usr/lib usr/bin/redis-server; do mount -o remount,bind,exec "$root/$exec"; done

rm -f "$root/tmp/log"
chroot "$root" /usr/bin/redis-server --port 0 --unixsocket /tmp/socket --dir /tmp --daemonize no \
    --logfile /tmp/log --loadmodule "$module" &
child=$!
trap 'kill "$child" 2>/dev/null; wait "$child" 2>/dev/null || true' EXIT
for _ in $(seq 600); do
    [ "$(redis-cli -s "$root/tmp/socket" PING 2>/dev/null)" != PONG ] || break
    kill -0 "$child" 2>/dev/null || { cat "$root/tmp/log"; exit 1; }
    sleep 0.1
done
redis-cli -s "$root/tmp/socket" MQ.ENQUEUE q x ID 1
