#!/usr/bin/env bash
# Fuzzes the decoder of snapshots, the applier of effects, whole operations and the arguments, each for
# FUZZ_SECONDS (600 if not set), beginning with the inputs in fuzz/corpus. Stops at the first fault.
#
# usage: scripts/fuzz.sh [TARGET…]          all targets without names
#        scripts/fuzz.sh --keep [TARGET…]   adds to fuzz/corpus, of what was found by now, the few inputs
#                                           that reach something new
#        scripts/fuzz.sh --ready            whether everything it needs is there without a download
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh

VERSION=0.13.2
ALL='snapshot effects operations arguments'
TARGET=$(realpath -m "${CARGO_TARGET_DIR:-target}")/fuzz
PATH=$PWD/.deps/cargo/bin:$PATH
# The sanitizers are part of every compiler, but only a nightly one lets them be used without this.
export RUSTC_BOOTSTRAP=1

is_installed() { cargo fuzz --version >/dev/null 2>&1; }

if [ "${1:-}" = --ready ]; then
    is_installed && cargo metadata --locked --offline --format-version 1 \
        --manifest-path fuzz/Cargo.toml >/dev/null 2>&1
    exit
fi

keep=
if [ "${1:-}" = --keep ]; then
    keep=1
    shift
fi
if ! is_installed; then
    say "Installing cargo-fuzz $VERSION into .deps/cargo"
    cargo install --quiet --locked --root .deps/cargo --version "$VERSION" cargo-fuzz
fi

for target in ${*:-$ALL}; do
    found=$TARGET/corpus/$target
    mkdir -p "$found"
    # Rare and large inputs are the business of the tests; small ones are fast and fault all the same.
    options=(-max_len=8192 -timeout=20 -rss_limit_mb=2048)
    case $target in
    arguments) options+=(-only_ascii=0 -dict=fuzz/arguments.dict) ;;
    esac
    if [ -n "$keep" ]; then
        say "Adding to fuzz/corpus/$target"
        cargo fuzz run --target-dir "$TARGET" "$target" "fuzz/corpus/$target" "$found" \
            -- "${options[@]}" -merge=1
    else
        say "Fuzzing $target for ${FUZZ_SECONDS:-600} s"
        cargo fuzz run --target-dir "$TARGET" "$target" "$found" "fuzz/corpus/$target" \
            -- "${options[@]}" -max_total_time="${FUZZ_SECONDS:-600}" -print_final_stats=1
    fi
done
