#!/usr/bin/env bash
# Builds two Debian packages of what was built: redis-mq-module and redis-mq-tools.
#
# usage: scripts/package.sh [FOLDER]        target/package unless it is named; MQ_MODULE and MQ_PROGRAM
#                                           as for scripts/install.sh, COMPRESSION (xz) of dpkg-deb
set -euo pipefail
here=$PWD
cd "$(dirname "$0")/.."
source scripts/lib.sh

have dpkg-deb || fail "dpkg-deb is missing: this is for Debian and its kin"
out=${1:-target/package}
case $out in /*) ;; *) out=$here/$out ;; esac
version=$(sed -n '/^\[workspace.package\]/,/^$/ s/^version = "\(.*\)"/\1/p' Cargo.toml)
architecture=$(dpkg --print-architecture)
# Packages of the same commit are the same to the byte.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH

# The newest symbols of the C library that a binary asks for.
libc_of() {
    grep -aoE 'GLIBC_[0-9]+\.[0-9.]+' "$1" | sed 's/GLIBC_//' | sort -uV | tail -n 1
}

# usage: package name part binary relations summary description
package() {
    local name=$1 part=$2 binary=$3 relations=$4 summary=$5 description=$6
    local root=$work/$name
    PREFIX=/usr DESTDIR=$root scripts/install.sh install "$part"
    local doc=$root/usr/share/doc/$name
    install -D -m 644 LICENSE "$doc/copyright"
    printf '\n' >>"$doc/copyright"
    # Whose code is linked in, and under which licences.
    cat docs/licenses.md >>"$doc/copyright"
    gzip -9n <CHANGELOG.md >"$doc/changelog.gz"
    chmod 644 "$doc/changelog.gz"
    find "$root/usr/share/man" -name '*.1' -exec gzip -9n {} + 2>/dev/null || true
    install -d -m 755 "$root/DEBIAN"
    local libc
    libc=$(libc_of "$root/$binary")
    {
        printf 'Package: %s\nVersion: %s\nArchitecture: %s\n' "$name" "$version" "$architecture"
        printf 'Maintainer: redis-mq <redis-mq@localhost>\nSection: database\nPriority: optional\n'
        printf 'Installed-Size: %s\n' "$(du -sk --apparent-size "$root/usr" | cut -f 1)"
        printf 'Depends: libc6 (>= %s), libgcc-s1\n%s\n' "${libc:-2.31}" "$relations"
        printf 'Description: %s\n%s\n' "$summary" "$description"
    } | sed '/^$/d' >"$root/DEBIAN/control"
    (cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
    # What this user's umask forbids to others is no matter of the package.
    chmod -R u+rwX,go+rX,go-w "$root"
    dpkg-deb --root-owner-group "-Z${COMPRESSION:-xz}" --build "$root" "$out/${name}_${version}_$architecture.deb" >/dev/null
    say "$out/${name}_${version}_$architecture.deb"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
package redis-mq-module module usr/lib/redis/modules/libredis_mq.so \
    'Enhances: redis-server, valkey-server' \
    'message queue as a module of Redis and Valkey' \
    ' One key is one queue: atomic commands, blocking delivery, locks with tokens,
 retries with backoff, dead letters, groups and limits.
 .
 To load it, add this line to the configuration of the server:
 loadmodule /usr/lib/redis/modules/libredis_mq.so'
package redis-mq-tools tools usr/bin/redis-mq \
    'Suggests: redis-mq-module, prometheus' \
    'command line, worker and exporter for the queues of redis-mq' \
    ' Look into queues and repair them, work on them with any command, serve their
 metrics to Prometheus and pages for browsers.'
