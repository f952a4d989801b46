#!/usr/bin/env bash
# Installs what was built, or removes it: the module, the program with its manual and completions, units
# for systemd, alert rules and a dashboard.
#
# usage: scripts/install.sh install|uninstall [module] [tools]      both parts unless one is named
#
# PREFIX (/usr) is where to; DESTDIR goes before all paths; MQ_MODULE and MQ_PROGRAM are what to install.
# The hardened services of Debian and Ubuntu load modules from /usr/lib only.
set -euo pipefail
here=$PWD
cd "$(dirname "$0")/.."
source scripts/lib.sh

PREFIX=${PREFIX:-/usr}
DESTDIR=${DESTDIR:-}
target=${CARGO_TARGET_DIR:-$PWD/target}/release
module=${MQ_MODULE:-$target/libredis_mq.so}
program=${MQ_PROGRAM:-$target/redis-mq}
case $PREFIX in /*) ;; *) fail "PREFIX has to begin with a slash" ;; esac
case $DESTDIR in "" | /*) ;; *) DESTDIR=$here/$DESTDIR ;; esac
root=$DESTDIR$PREFIX

what=${1:-}
parts=("${@:2}")
[ ${#parts[@]} -gt 0 ] || parts=(module tools)

pages() { "$program" man "$1" >/dev/null; }

# shell | file
COMPLETIONS='bash share/bash-completion/completions/redis-mq
zsh share/zsh/site-functions/_redis-mq
fish share/fish/vendor_completions.d/redis-mq.fish'
UNITS='redis-mq-exporter.service redis-mq-work@.service'

install_module() {
    install -D -m 755 "$module" "$root/lib/redis/modules/libredis_mq.so"
    sed "s|/usr/lib/redis/modules|$PREFIX/lib/redis/modules|" redis.conf >"$work/redis.conf"
    install -D -m 644 "$work/redis.conf" "$root/share/redis-mq/redis.conf"
}

install_tools() {
    install -D -m 755 "$program" "$root/bin/redis-mq"
    mkdir -p "$work/man"
    pages "$work/man"
    install -d -m 755 "$root/share/man/man1"
    install -m 644 "$work"/man/*.1 "$root/share/man/man1"
    local shell file unit
    while read -r shell file; do
        "$program" completions "$shell" >"$work/completions"
        install -D -m 644 "$work/completions" "$root/$file"
    done <<<"$COMPLETIONS"
    for unit in $UNITS; do
        sed "s|@PREFIX@|$PREFIX|" "packaging/$unit" >"$work/unit"
        install -D -m 644 "$work/unit" "$root/lib/systemd/system/$unit"
    done
    install -D -m 644 -t "$root/share/redis-mq" ops/alerts.yml ops/grafana-dashboard.json
}

uninstall_module() {
    rm -f "$root/lib/redis/modules/libredis_mq.so" "$root/share/redis-mq/redis.conf"
    rmdir -p --ignore-fail-on-non-empty "$root/lib/redis/modules" "$root/share/redis-mq" 2>/dev/null || true
}

uninstall_tools() {
    rm -f "$root"/bin/redis-mq "$root"/share/man/man1/redis-mq{,-*}.1
    local shell file unit
    while read -r shell file; do rm -f "$root/$file"; done <<<"$COMPLETIONS"
    for unit in $UNITS; do rm -f "$root/lib/systemd/system/$unit"; done
    rm -f "$root"/share/redis-mq/{alerts.yml,grafana-dashboard.json}
    rmdir -p --ignore-fail-on-non-empty "$root/share/redis-mq" 2>/dev/null || true
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
case $what in install | uninstall) ;; *) fail "usage: scripts/install.sh install|uninstall [module] [tools]" ;; esac
for part in "${parts[@]}"; do
    case $part in module | tools) ;; *) fail "not known: $part" ;; esac
    "${what}_$part"
done
