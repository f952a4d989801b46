#!/usr/bin/env bash
# Puts promtool, with which the tests check metrics and alert rules, into .deps/bin, unless there is one.
# It is taken out of Debian's or Ubuntu's package, which is not installed: that would add a service.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh

PATH=$PWD/.deps/bin:$PATH
have promtool && exit
have apt-get && have dpkg-deb || fail "please install promtool (of Prometheus), then run this again"
say "Fetching promtool"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
download() {
    # As root apt would want to do it as a user of its own, who may not write here.
    (cd "$work" && apt-get -qq -o APT::Sandbox::User=root download prometheus)
}
download 2>/dev/null || { as_root apt-get -qq update || true; download; }
dpkg-deb --fsys-tarfile "$work"/prometheus_*.deb | tar -x -C "$work" ./usr/bin/promtool
mkdir -p .deps/bin
# Another run may do the same at this moment.
install -m 755 "$work/usr/bin/promtool" ".deps/bin/promtool.$$"
mv ".deps/bin/promtool.$$" .deps/bin/promtool
promtool --version >/dev/null || fail ".deps/bin/promtool does not run"
