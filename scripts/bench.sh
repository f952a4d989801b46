#!/usr/bin/env bash
# Measures redis-mq next to what people would use instead, prints tables, and after a full run writes
# docs/benchmarks.md. Everything it needs goes to .deps/bench; servers are its own, on free ports.
#
# From the environment: MQ_MODULE, the module (`make` builds it and sets it); QUICK=1 for a short run;
# SERVER=NAME for a server of scripts/servers.sh; ONLY=NAME,… for single chapters.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh

: "${MQ_MODULE:?is not set: use make, or give the path of libredis_mq.so}"
PATH=$PWD/.deps/bin:$PATH
HOME_OF_BENCH=$PWD/.deps/bench
BULLMQ=6.7.0
IOREDIS=5.11.1

python_packages() {
    local pin=$HOME_OF_BENCH/venv/requirements.txt
    cmp -s benches/requirements.txt "$pin" && return
    have python3 || apt_install "Python 3" python3
    python3 -c 'import ensurepip' 2>/dev/null || apt_install "Python's venv" python3-venv
    say "Installing RQ and matplotlib"
    python3 -m venv "$HOME_OF_BENCH/venv"
    "$HOME_OF_BENCH/venv/bin/pip" install --quiet --disable-pip-version-check \
        --requirement benches/requirements.txt
    cp benches/requirements.txt "$pin"
}

# BullMQ is left out where there is no Node: it is one of several to compare with.
node_packages() {
    local pin=$HOME_OF_BENCH/node/pin
    have npm || return 0
    export BENCH_NODE=$HOME_OF_BENCH/node
    [ "$(cat "$pin" 2>/dev/null)" = "$BULLMQ $IOREDIS" ] && return
    say "Installing BullMQ $BULLMQ"
    mkdir -p "$BENCH_NODE"
    npm install --prefix "$BENCH_NODE" --no-save --no-package-lock --no-audit --no-fund --silent \
        "bullmq@$BULLMQ" "ioredis@$IOREDIS"
    echo "$BULLMQ $IOREDIS" >"$pin"
}

python_packages
node_packages
cargo build --locked --release -p redis-mq-bench
MQ_LOAD=${CARGO_TARGET_DIR:-target}/release/mq-load
if [ -n "${SERVER:-}" ]; then
    scripts/servers.sh "$SERVER"
    MQ_SERVER_BIN=$PWD/.deps/servers/$SERVER/server
fi
export MQ_LOAD=$(realpath "$MQ_LOAD") MQ_MODULE=$(realpath "$MQ_MODULE")
export MQ_SERVER_BIN=${MQ_SERVER_BIN:-redis-server}

options=()
if [ -n "${QUICK:-}" ]; then options+=(--quick); fi
if [ -n "${ONLY:-}" ]; then options+=(--only "$ONLY"); fi
say "Measuring; leave the machine alone meanwhile"
export PYTHONPATH=$PWD/benches PYTHONDONTWRITEBYTECODE=1
exec "$HOME_OF_BENCH/venv/bin/python" -m suite "${options[@]}"
