#!/usr/bin/env bash
# Mixed load with kills and failovers for ten minutes, or as many seconds as MQ_SOAK_SECONDS says. In
# between everything must add up. The module is the one that MQ_MODULE names (`make` sets it).
#
# usage: scripts/soak.sh           the mixed load
#        scripts/soak.sh TEST…     the long versions of these integration tests, such as crash, hostile or import
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh

: "${MQ_MODULE:?is not set: use make, or give the path of libredis_mq.so}"
PATH=$PWD/.deps/bin:$PATH
export MQ_SOAK=1

tests=()
for name in "${@:-soak}"; do
    tests+=(--test "$name")
done
say "Soaking ${*:-with mixed load} on $("${MQ_SERVER_BIN:-redis-server}" --version)"
exec cargo test --locked --release -p redis-mq -p redis-mq-cli "${tests[@]}" -- --nocapture
