#!/usr/bin/env bash
# A Wadi cluster on one machine: etcd, an S3 server, three gateways and a compactor, all on 127.0.0.1.
#
#   examples/cluster.sh start [DIR]     starts it in DIR (./wadi-cluster) and says where the gateways are
#   examples/cluster.sh stop [DIR]      ends what it started, gateways first
#
# Needs `wadi` on the PATH, etcd (Debian: etcd-server), and ministack as S3 server: `make tools` installs both. ministack keeps
# objects in memory, so the data go with it. Ports are PORT to PORT+6 (9300); PORT=0 takes free ones.
set -euo pipefail

action=${1:-}
dir=${2:-./wadi-cluster}
root=$(cd "$(dirname "$0")/.." && pwd)
port=${PORT:-9300}

stop() {
    # In the order in which they were started last: gateways give their shards away before what they need ends.
    for name in gateway3 gateway2 gateway1 compactor s3 etcd; do
        [ -e "$dir/$name.pid" ] || continue
        pid=$(cat "$dir/$name.pid")
        kill "$pid" 2>/dev/null || true
        for _ in $(seq 300); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
        rm "$dir/$name.pid"
    done
}

# run NAME COMMAND...: starts it in the background, with its log in DIR/NAME.log.
run() {
    local name=$1
    shift
    "$@" >"$dir/$name.log" 2>&1 &
    echo $! >"$dir/$name.pid"
}

# until WHAT NAME COMMAND...: waits until the command succeeds; if NAME has ended, its log says why.
until_it() {
    local what=$1 name=$2
    shift 2
    for _ in $(seq 300); do
        "$@" >/dev/null 2>&1 && return
        kill -0 "$(cat "$dir/$name.pid")" 2>/dev/null || break
        sleep 0.1
    done
    echo "$what did not start; $dir/$name.log says:" >&2
    tail -n 20 "$dir/$name.log" >&2
    stop
    exit 1
}

start() {
    for program in wadi etcd curl; do
        command -v "$program" >/dev/null || { echo "$program is not on the PATH; make tools, make build" >&2; exit 1; }
    done
    [ -x "$root/.venv/bin/ministack" ] || { echo "the S3 server is missing: make tools" >&2; exit 1; }
    [ ! -e "$dir/etcd.pid" ] || { echo "$dir is in use; end it first: examples/cluster.sh stop $dir" >&2; exit 1; }
    mkdir -p "$dir"
    local ports
    mapfile -t ports < <(python3 -c '
import socket, sys
first = int(sys.argv[1])
sockets = [socket.socket() for _ in range(7)]
for at, s in enumerate(sockets):
    s.bind(("127.0.0.1", first and first + at))
print(*(s.getsockname()[1] for s in sockets), sep="\n")' "$port")
    [ ${#ports[@]} -eq 7 ] || { echo "ports $port to $((port + 6)) are not free; set PORT" >&2; exit 1; }
    local etcd=http://127.0.0.1:${ports[0]} peer=http://127.0.0.1:${ports[1]} s3=http://127.0.0.1:${ports[2]}

    run etcd etcd --name one --data-dir "$dir/etcd" --listen-client-urls "$etcd" --advertise-client-urls "$etcd" \
        --listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" --initial-cluster "one=$peer"
    until_it etcd etcd curl -sf "$etcd/health"
    run s3 env BIND_HOST=127.0.0.1 GATEWAY_PORT="${ports[2]}" STATE_DIR="$dir/s3" "$root/.venv/bin/ministack"
    until_it "the S3 server" s3 curl -sf -X PUT "$s3/wadi"

    local shared=(--object-store s3://wadi/cluster --s3-endpoint "$s3" --s3-region us-east-1 --s3-allow-http
        --meta etcd --etcd-endpoints "$etcd")
    for number in 1 2 3; do
        run "gateway$number" wadi gateway "${shared[@]}" --listen "127.0.0.1:${ports[$((number + 2))]}"
    done
    run compactor wadi compactor "${shared[@]}" --listen "127.0.0.1:${ports[6]}"
    for number in 1 2 3; do
        local url=http://127.0.0.1:${ports[$((number + 2))]}
        until_it "gateway $number" "gateway$number" curl -sf "$url/ready"
        echo "$url" >"$dir/gateway$number.url"
        echo "gateway $number listens on $url"
    done
}

case $action in
start) start ;;
stop) stop ;;
*)
    sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
