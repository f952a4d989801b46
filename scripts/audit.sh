#!/usr/bin/env bash
# Checks the dependencies: licences, banned crates and where they come from (deny.toml), and that
# docs/licenses.md is up to date. Known vulnerabilities too, where the advisory database can be fetched.
#
# usage: scripts/audit.sh               licences, bans, sources, docs/licenses.md
#        scripts/audit.sh --advisories  also known vulnerabilities: fetches github.com/rustsec/advisory-db
#        scripts/audit.sh --page        only that docs/licenses.md is up to date; needs nothing but cargo
#        scripts/audit.sh --write       writes docs/licenses.md
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh

VERSION=0.20.2
PAGE=docs/licenses.md
PATH=$PWD/.deps/cargo/bin:$PATH

# The crates that a package is linked with, its own parts aside.
crates_of() {
    cargo tree --locked --package "$1" --edges normal --target x86_64-unknown-linux-gnu --prefix none \
        --format '{p}|{l}|{r}' |
        # Parts of this project, and marks for what was listed before, end in brackets.
        sed 's/ (\*)//' | grep -v '^redis-mq[a-z-]* v[^|]* (' | sed 's/ (proc-macro)//' | sort -u |
        awk -F '|' '{ split($1, crate, " v"); printf "| %s | %s | %s | %s |\n", crate[1], crate[2], $2, $3 }'
}

page() {
    cat <<'PAGE'
# Licences of the dependencies

redis-mq itself is under the MIT licence (`LICENSE`). What is linked into the three things that are shipped, with all
default features, on Linux:

PAGE
    local package
    for package in "redis-mq|The module, libredis_mq.so" "redis-mq-client|The client crate" \
        "redis-mq-cli|The command line, redis-mq"; do
        printf '## %s\n\n| crate | version | licence | source |\n|---|---|---|---|\n' "${package#*|}"
        crates_of "${package%|*}"
        echo
    done
    cat <<'PAGE'
This page is made by `scripts/audit.sh --write`; `make check` says when it is out of date. `make audit` checks the
licences of all crates, those for tests and tools too, against `deny.toml`, and that they come from cargo's default registry only.
`scripts/audit.sh --advisories` also looks for known vulnerabilities; for that it fetches the RustSec database from GitHub.
PAGE
}

case ${1:-} in
--write)
    page >"$PAGE.new"
    mv "$PAGE.new" "$PAGE"
    exit
    ;;
"" | --page | --advisories) ;;
*) fail "not known: $1" ;;
esac

diff -u "$PAGE" <(page) || fail "$PAGE is out of date: run scripts/audit.sh --write"
[ "${1:-}" != --page ] || exit 0

if ! cargo deny --version >/dev/null 2>&1; then
    say "Installing cargo-deny $VERSION into .deps/cargo"
    cargo install --quiet --locked --root .deps/cargo --version "$VERSION" cargo-deny
fi
checks=(licenses bans sources)
[ "${1:-}" != --advisories ] || checks+=(advisories)
say "Checking ${checks[*]}"
# Without --workspace the client and the tools would not be looked at.
cargo deny --workspace --locked --log-level error check --hide-inclusion-graph "${checks[@]}"
