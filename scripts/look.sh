#!/usr/bin/env bash
# A server of its own with queues that live, and the pages of `redis-mq web` to look at them. It ends with
# Ctrl-C, and leaves nothing behind.
#
# usage: scripts/look.sh       MQ_MODULE and MQ_PROGRAM name the module and the program (`make` sets them),
#                              LOOK_LISTEN where the pages are, 127.0.0.1:9822 if not given
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh

: "${MQ_MODULE:?is not set: use make look}" "${MQ_PROGRAM:?is not set: use make look}"
PATH=$PWD/.deps/bin:$PATH
folder=$(mktemp -d)
running=()

stop() {
    trap - EXIT
    # The server last: workers tell it what they have done.
    local at
    for ((at = ${#running[@]} - 1; at >= 0; at--)); do
        kill "${running[at]}" 2>/dev/null || true
        wait "${running[at]}" || true
    done
    rm -rf "$folder"
}
trap stop EXIT
trap 'exit 0' INT TERM

export REDIS_MQ_URL=unix://$folder/redis.sock
"${MQ_SERVER_BIN:-redis-server}" --port 0 --unixsocket "$folder/redis.sock" --dir "$folder" --save '' \
    --loadmodule "$MQ_MODULE" >"$folder/log" &
running+=($!)
tries=0
until "$MQ_PROGRAM" check >/dev/null 2>&1; do
    kill -0 "${running[0]}" 2>/dev/null && [ $((tries += 1)) -lt 100 ] || fail "no server: $(tail -n 3 "$folder/log")"
    sleep 0.1
done

seq 1 400 | sed 's/.*/{"payload":{"to":"customer-&@example.org"},"id":"mail:&"}/' |
    "$MQ_PROGRAM" enqueue mails --jsonl >/dev/null
seq 1 60 | sed 's/.*/{"payload":{"order":&},"delay":3600000,"group":"shop-&"}/' |
    "$MQ_PROGRAM" enqueue invoices --jsonl >/dev/null
seq 1 2000 | "$MQ_PROGRAM" enqueue thumbnails >/dev/null
"$MQ_PROGRAM" enqueue webhooks '{}' --group shop-7 >/dev/null
"$MQ_PROGRAM" pause webhooks >/dev/null

# A worker whose mails to some customers come back, and one that takes its time.
"$MQ_PROGRAM" work mails --concurrency 2 -- sh -c '
    case $MQ_ID in *7) echo "no such mailbox" >&2; exit 65 ;; esac; sleep 0.3' >/dev/null 2>&1 &
running+=($!)
"$MQ_PROGRAM" work thumbnails -- sleep 0.5 >/dev/null 2>&1 &
running+=($!)

say "In another terminal: $MQ_PROGRAM --url $REDIS_MQ_URL top"
"$MQ_PROGRAM" web --listen "${LOOK_LISTEN:-127.0.0.1:9822}" --budget 20 &
running+=($!)
wait $!
