# What the scripts share. To be sourced by bash from the root of the repository.

say() { printf '\033[1m==>\033[0m %s\n' "$*" >&2; }

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif have sudo; then
        sudo "$@"
    else
        fail "not root and no sudo: run as root: $*"
    fi
}

# Installs packages of Debian or Ubuntu; elsewhere says what is needed and gives up.
# usage: apt_install "what it is, for other systems" package…
apt_install() {
    local meaning=$1
    shift
    have apt-get || fail "please install $meaning, then run this again"
    say "Installing $* ($meaning)"
    # One unreachable source of many is no reason to stop: the install itself tells.
    as_root apt-get -qq update || true
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq install -y --no-install-recommends "$@" >/dev/null
}

# The version of a server binary, as in 7.0.15; nothing if it is none.
server_version() {
    "$1" --version 2>/dev/null | sed -n 's/^\(Redis\|Valkey\) server v=\([0-9.]*\).*/\2/p'
}
