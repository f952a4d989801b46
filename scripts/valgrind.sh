#!/usr/bin/env bash
# Runs integration tests against a server under valgrind, with the module that MQ_MODULE names (`make
# memcheck` sets it). Fails if valgrind tells of a fault or of lost memory with a frame of the module in it.
#
# usage: scripts/valgrind.sh [TEST…]     the programs of tests/ by name; the whole contract without names
#
# The server must use the C library's malloc, which valgrind replaces: NAME in MQ_MEMCHECK_SERVER, valkey-9.1
# if not set. Memory is found lost where a test stops its server in order; others are killed.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh

: "${MQ_MODULE:?is not set: use make, or give the path of libredis_mq.so}"
name=${MQ_MEMCHECK_SERVER:-valkey-9.1}
CONTRACT='smoke access atomicity blocking cancel config dead_letters dequeue discovery done enqueue eoq errors
    errors_state extend generic hostile notifications payloads persistence protocol replication stale status
    waiters waiters_gone waiters_keyspace'

have valgrind || apt_install "valgrind" valgrind
scripts/servers.sh "$name"
server=$PWD/.deps/servers/$name/server
"$server" --version | grep -q malloc=libc || fail "$name does not use the C library's malloc"

home=$(realpath -m "${CARGO_TARGET_DIR:-target}")/memcheck
rm -rf "$home"
mkdir -p "$home/logs"
cat >"$home/suppressions" <<'SUPPRESSIONS'
{
   The server compresses strings with a table that begins as it is found: each hit is verified
   Memcheck:Cond
   fun:lzf_compress
}
{
   The same, where the hit is followed
   Memcheck:Value8
   fun:lzf_compress
}
{
   A rewrite or save is a fork: its copy of the memory is not given back
   Memcheck:Leak
   ...
   fun:fork
}
SUPPRESSIONS
# Asked for its version, or told to be a sentinel, the server needs no watching.
cat >"$home/server" <<SERVER
#!/bin/sh
case " \$* " in *" --version "*|*" --sentinel "*) exec "$server" "\$@" ;; esac
exec valgrind --quiet --log-file="$home/logs/%p" --leak-check=full --show-leak-kinds=definite \\
    --errors-for-leak-kinds=definite --num-callers=40 --child-silent-after-fork=yes \\
    --suppressions="$home/suppressions" "$server" "\$@"
SERVER
chmod +x "$home/server"

tests=()
for test in ${*:-$CONTRACT}; do
    tests+=(--test "$test")
done
say "Under valgrind: $("$server" --version)"
failed=
if cargo nextest --version >/dev/null 2>&1; then
    run=(cargo nextest run --locked --no-fail-fast)
else
    run=(cargo test --locked --no-fail-fast)
fi
MQ_SERVER_BIN=$home/server "${run[@]}" -p redis-mq "${tests[@]}" || failed=1

# A fault is a block of lines with a stack; the next begins where a line is empty but for the process id.
faults=$(cat "$home"/logs/* | sed 's/^==[0-9]*== \?//' |
    awk -v RS= '/libredis_mq|redis_mq/ { print $0 "\n"; n++ } END { exit !n }') && {
    printf '%s\n' "$faults" >&2
    fail "valgrind found faults in the module; all it said is in $home/logs"
}
say "$(find "$home/logs" -type f | wc -l) servers, no fault in the module"
[ -z "$failed" ] || fail "tests failed, slow as the server is under valgrind; but without a fault of memory"
