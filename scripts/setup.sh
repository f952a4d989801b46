#!/usr/bin/env bash
# Installs what building and running needs and this machine lacks: libclang, for the bindings to the
# server's module API, and a Redis server of version 6.2 or later. Does nothing where both are there.
# No service is installed or started.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh

have cargo || fail "please install Rust (https://rustup.rs), then run this again"
have cc || apt_install "a C compiler" gcc libc6-dev

# The bindings generator finds the library in all these places by itself; it needs the compiler's own
# headers too, which some systems package apart.
have_libclang() {
    local library headers
    library=$(compgen -G "${LIBCLANG_PATH:-/nowhere}/libclang*" ||
        compgen -G '/usr/lib*/llvm*/lib*/libclang[.-]*' ||
        compgen -G '/usr/lib*/libclang.so*' ||
        compgen -G '/usr/lib/*/libclang-[0-9]*.so*' ||
        compgen -G '/usr/local/lib*/libclang.so*' ||
        compgen -G '/opt/homebrew/opt/llvm/lib/libclang.dylib') || return 1
    headers=$(compgen -G '/usr/lib*/clang/*/include/stddef.h' ||
        compgen -G '/usr/lib*/llvm*/lib*/clang/*/include/stddef.h' ||
        compgen -G '/usr/local/lib*/clang/*/include/stddef.h' ||
        compgen -G '/opt/homebrew/opt/llvm/lib/clang/*/include/stddef.h') || return 1
    [ -n "$library" ] && [ -n "$headers" ]
}

have_libclang || apt_install "libclang with its headers" libclang-dev
have_libclang || fail "libclang is not where it was expected; set LIBCLANG_PATH to its folder"

recent() {
    local version
    version=$(server_version "$1") && [ -n "$version" ] &&
        [ "$(printf '6.2\n%s\n' "$version" | sort -V | head -n 1)" = 6.2 ]
}

link_server() {
    mkdir -p .deps/bin
    ln -sf "$1" .deps/bin/redis-server
}

PATH=$PWD/.deps/bin:$PATH
if ! recent redis-server && have apt-get; then
    # Debian's redis-tools holds the server under another name: redis-server, which would add a
    # service that starts with the system, is only a link to it.
    apt_install "a Redis server; no service is added" redis-tools
    if ! have redis-server; then
        link_server "$(command -v redis-check-rdb)"
    fi
fi
if ! recent redis-server; then
    scripts/servers.sh redis-8.2 ||
        fail "please install a Redis or Valkey server of version 6.2 or later, then run this again"
    link_server "$PWD/.deps/servers/redis-8.2/server"
fi
recent redis-server || fail "no usable redis-server in $PATH"
