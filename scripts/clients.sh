#!/usr/bin/env bash
# Installs the clients of other languages that tests try, pinned, into .deps/clients; what is there stays.
#
# usage: scripts/clients.sh python|node
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh

PYTHON='redis==7.1.0'
NODE='redis@5.10.0 ioredis@5.8.2'

home=.deps/clients/$1
case $1 in
python) pin=$PYTHON ;;
node) pin=$NODE ;;
*) fail "not known: $1" ;;
esac
# Two tests may ask at the same time.
mkdir -p .deps/clients
exec 9>".deps/clients/$1.lock"
flock 9
[ "$(cat "$home/pin" 2>/dev/null)" != "$pin" ] || exit 0

say "Installing $pin into $home"
rm -rf "$home"
if [ "$1" = python ]; then
    python3 -m venv "$home" || {
        apt_install "Python's virtual environments" python3-venv
        python3 -m venv "$home"
    }
    "$home/bin/pip" install --quiet --disable-pip-version-check "$pin"
else
    have npm || apt_install "npm" npm
    mkdir -p "$home"
    # shellcheck disable=SC2086 # two words
    npm install --prefix "$home" --silent --no-audit --no-fund --no-save $NODE
fi
echo "$pin" >"$home/pin"
