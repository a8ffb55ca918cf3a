#!/usr/bin/env bash
# What Wadi does, on a year of flights from New York: load, read two of nineteen columns, filter, follow, kill the
# server, and find everything again. Usage: demo.sh [path to wadi]
set -euo pipefail
cd "$(dirname "$0")/.."

wadi=$(realpath "${1:-target/debug/wadi}")
data=$(mktemp -d)
server=
trap 'kill -9 "$server" 2>/dev/null || true; rm -rf "$data"' EXIT

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }

start() {
    rm -f "$data/address"
    "$wadi" dev --data-dir "$data/wadi" --listen 127.0.0.1:0 --address-file "$data/address" 2>>"$data/log" &
    server=$!
    for _ in $(seq 300); do
        [ -s "$data/address" ] && curl -sf "$(cat "$data/address")/ready" >/dev/null && break
        kill -0 "$server" 2>/dev/null || { cat "$data/log" >&2; exit 1; }
        sleep 0.1
    done
    WADI_URL=$(cat "$data/address")
    export WADI_URL
}

# Row count and a checksum over all rows, in any order.
state() { "$wadi" scan nyc.flights --format csv | sort | sha256sum | cut -c1-16; }
count() { "$wadi" scan nyc.flights --columns distance --format csv | tail -n +2 | awk '{n++; s+=$1} END {print n " rows, sum of distance " s}'; }
bytes() { curl -sf -o /dev/null -w '%{size_download}' -H 'Accept: application/vnd.apache.arrow.stream' "$WADI_URL/v1/databases/nyc/tables/flights/scan$1"; }

say "Start a server on a temporary directory"
start
echo "wadi dev at $WADI_URL"

say "Create nyc.flights with the columns of a Parquet file"
"$wadi" database create nyc
"$wadi" table create nyc.flights --like examples/data/flights.parquet

say "Ingest it"
"$wadi" ingest nyc.flights examples/data/flights.parquet --state "$data/ingest"

say "Read 2 of 19 columns"
two=$(bytes '?columns=carrier,dep_delay')
all=$(bytes '')
echo "carrier and dep_delay: $two bytes; all columns: $all bytes ($((all / two)) times as many)"

say "Filter: carrier = 'UA' and dep_delay > 60"
"$wadi" scan nyc.flights --columns carrier,flight,origin,dest,dep_delay --filter "carrier = 'UA' and dep_delay > 60" --limit 3
late=$("$wadi" scan nyc.flights --columns flight --filter "carrier = 'UA' and dep_delay > 60" --format csv | tail -n +2 | wc -l)
echo "$late flights"
[ "$late" -eq 3824 ]

say "Follow the table (three rows from the beginning)"
"$wadi" tail nyc.flights --from earliest --columns _offset,carrier,flight,dest --limit 3

say "Kill the server with SIGKILL, and start it again"
before_count=$(count)
before=$(state)
echo "before: $before_count, checksum $before"
kill -9 "$server"
wait "$server" 2>/dev/null || true
start
after_count=$(count)
after=$(state)
echo "after:  $after_count, checksum $after"
[ "$before $before_count" = "$after $after_count" ]
[ "$after_count" = "336776 rows, sum of distance 350217607" ]

say "Everything is there. Next: the README shows each step with curl and Python."
