#!/usr/bin/env bash
# Runs tests with the module that MQ_MODULE names (`make` sets it).
#
# usage: scripts/test.sh all               unit, model, doc and integration tests, system's server
#        scripts/test.sh contract NAME…    the module's integration tests on each of these servers
#        scripts/test.sh every NAME…       all integration tests, those of client and tools too, on each
#        scripts/test.sh smoke NAME…       the smoke test on each of these servers
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh

: "${MQ_MODULE:?is not set: use make, or give the path of libredis_mq.so}"
PATH=$PWD/.deps/bin:$PATH

# cargo nextest, where it is installed, gives each test a process and a deadline of its own. Most tests wait
# most of their time, so more run at once than there are processors.
run() {
    if cargo nextest --version >/dev/null 2>&1; then
        cargo nextest run --locked --test-threads $((2 * $(nproc))) "$@"
    else
        cargo test --locked "$@"
    fi
}

on_each() {
    local name
    for name in "${servers[@]}"; do
        scripts/servers.sh "$name"
        say "$what on $name: $(".deps/servers/$name/server" --version)"
        MQ_SERVER_BIN=.deps/servers/$name/server run "$@"
    done
}

# The pages of `redis-mq web` are tested in a browser: without one these tests fail here.
browser() {
    export MQ_BROWSER=required
    have chromedriver || apt_install "Chromium with its driver, chromedriver" chromium chromium-driver
}

# The tests of the module. All of the workspace is named where the runner can choose from it, so that
# what was built for one run fits the next.
module=(-p redis-mq --test '*')
if cargo nextest --version >/dev/null 2>&1; then
    module=(--workspace --test '*' -E 'package(redis-mq)')
fi

what=${1:?all, contract, every or smoke}
servers=("${@:2}")
case $what in
all)
    browser
    scripts/promtool.sh
    say "All tests: $("${MQ_SERVER_BIN:-redis-server}" --version)"
    run --workspace --lib --bins --tests --examples
    # With one of the two libraries at a time, as programs have them.
    run -p redis-mq-client --features tls-rustls --test tls
    run -p redis-mq-client --features tls-native-tls --test tls
    # Doc tests are a matter of rustdoc, which nextest does not run.
    cargo test --locked --workspace --doc
    ;;
contract)
    on_each "${module[@]}"
    ;;
every)
    browser
    scripts/promtool.sh
    on_each --workspace --test '*'
    ;;
smoke)
    on_each "${module[@]/\*/smoke}"
    ;;
*)
    fail "not known: $what"
    ;;
esac
