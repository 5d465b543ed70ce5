#!/bin/sh
# Streams the same responses to 1, 2 and 4 real replicas, each with the same share of a core, and prints what
# "assay-lab bench fleet simulate" is compared with in ../scaling.md.
#
#   sh check.sh ASSAY NATS-SERVER MODEL RESPONSES.jsonl
#
# with assay-lab in the directory of ASSAY,
#
# as root on Linux with cgroup v1. SHARE is the share of a core in percent (20), RATE the responses/s of a replica
# (Poisson), COUNT the responses of a replica then, BURST those of a replica in a burst, ROUNDS how often all of it is
# done. The last column is the share of a core that a replica really got.
set -eu
assay=$1 lab=${1%/*}/assay-lab nats=$2 model=$3 texts=$4
share=${SHARE:-20} rate=${RATE:-12} count=${COUNT:-300} burst=${BURST:-400} rounds=${ROUNDS:-2}
groups=/sys/fs/cgroup/cpu/assay-check
dir=$(mktemp -d)
pids= served=

mkdir -p $groups
echo 262144 >$groups/cpu.shares
in_group() { # GROUP COMMAND...: in a subshell, which becomes the command
    group=$groups/$1
    shift
    mkdir -p "$group"
    exec sh -c 'echo $$ >"$0/tasks"; exec "$@"' "$group" "$@"
}
stop() {
    for pid in $pids; do
        kill "$pid" 2>/dev/null || :
        wait "$pid" 2>/dev/null || :
    done
    pids= served=
}
trap 'stop; rm -r "$dir"' EXIT
trap 'exit 1' INT TERM

# spent prints the CPU time of all replicas in ticks of 10 ms.
spent() { for pid in $served; do cut -d ' ' -f 14,15 "/proc/$pid/stat"; done | awk '{ n += $1 + $2 } END { print n }'; }

load() { # TITLE FLAGS...
    title=$1
    shift
    before=$(spent)
    row=$(in_group load "$lab" bench fleet load "$texts" --nats-url nats://127.0.0.1:4333 "$@" | tail -n 1)
    echo "$title $row" "$(spent)" "$before" "$replicas" |
        awk '{ cpu = ($(NF-2) - $(NF-1)) / 100; $(NF-2) = "CPU"; $(NF-1) = cpu " s ="; $NF = int(100 * cpu / $NF / seconds($0) + 0.5) "%"; print }
             function seconds(line) { split(line, parts, "|"); split(parts[2], cells, " "); return cells[2] }'
}

for round in $(seq "$rounds"); do
    for replicas in 1 2 4; do
        mkdir -p "$dir/$round-$replicas"
        (in_group broker "$nats" -js -a 127.0.0.1 -p 4333 -sd "$dir/$round-$replicas" >"$dir/nats.log" 2>&1) &
        pids="$pids $!"
        for i in $(seq "$replicas"); do
            mkdir -p "$groups/r$i"
            echo -1 >"$groups/r$i/cpu.cfs_quota_us" # it starts at full speed
            (in_group "r$i" "$assay" serve --model "$model" --threads 1 --cache-bytes 0 --no-train --listen "127.0.0.1:1808$i" \
                --nats-url nats://127.0.0.1:4333 --data-dir "$dir/$round-$replicas/r$i" >"$dir/r$i.log" 2>&1) &
            pids="$pids $!" served="$served $!"
        done
        for i in $(seq "$replicas"); do
            until ASSAY_LISTEN="127.0.0.1:1808$i" "$assay" health >/dev/null 2>&1; do sleep 0.2; done
            echo $((share * 1000)) >"$groups/r$i/cpu.cfs_quota_us"
        done
        if [ "$replicas" = 1 ]; then
            echo "one at a time: $(in_group load "$lab" bench serving "$texts" --url http://127.0.0.1:18081 --concurrency 1 --size 1 --max-responses 100 | tail -n 1)"
        fi
        load "$round: $replicas, burst |" --count $((burst * replicas))
        load "$round: $replicas, $((rate * replicas))/s |" --count $((count * replicas)) --rate $((rate * replicas))
        stop
    done
done
