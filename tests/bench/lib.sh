# shellcheck shell=bash
# Sourced by scripts/bench: what every row needs. It has set $work (a folder of its own), $bootstrap
# and $broker (address and process of the broker), $bin (the binaries) and $results.
#
# A row is a file in tests/bench/rows with two functions: `measure_ROW` adds JSON lines to $results,
# `table_ROW` prints them. The generator's README says what the workload is.

# What the rows measure, besides errors and warnings: each step of a commit and of a checkpoint.
STEPS=info,dovetail_kafka=trace,dovetail_runtime=trace

# The process that is measured, while it runs.
peer=

die() { echo "bench: $*" >&2; exit 1; }

# field JSON NAME: the value of a flat field
field() { printf '%s' "$1" | sed -n "s/.*\"$2\":\"\{0,1\}\([^,\"}]*\).*/\1/p"; }

# median: of the numbers on standard input
median() { sort -n | awk '{ v[NR] = $1 } END { print NR ? v[int((NR + 1) / 2)] : "-" }'; }

now_ms() { date +%s%3N; }

# add ROW MEMBERS: one result; MEMBERS are those of a JSON object without its braces
add() { echo "{\"row\":\"$1\",$2}" | tee -a "$results"; }

# rows ROW: its results
rows() { grep "\"row\":\"$1\"" "$results"; }

# gen ARGUMENT...: the generator, on topics with $partitions partitions and about $keys keys
gen() { "$bin/dovetail-bench-gen" --keys "${keys:-200000}" --partitions "${partitions:-4}" "$@"; }

# get PATH: a page of the host's admin port
get() {
    (exec 3<> "/dev/tcp/127.0.0.1/$port" && printf 'GET %s HTTP/1.0\r\n\r\n' "$1" >&3 && cat <&3) 2>/dev/null
}

free_port() {
    local candidate
    while :; do
        candidate=$((12000 + RANDOM % 8000))
        (exec 3<> "/dev/tcp/127.0.0.1/$candidate") 2>/dev/null || { echo "$candidate"; return; }
    done
}

# host_config NAME DIM BEH OUT COMMIT [LINE...]: a pipeline file for the benchmark's job
host_config() {
    local name=$1 dim=$2 beh=$3 out=$4 every=$5
    shift 5
    port=$(free_port)
    cat > "$work/$name.yaml" <<CONF
pipeline: $name
kafka: { brokers: "$bootstrap" }
inputs:
  dimension:
    topic: $dim
    key: { from: value, path: \$.user_id, type: string }
    time: { from: value, path: \$.ts, unit: ms, out_of_orderness: 5s, idle_after: never, max_future_skew: 3650d }
    start: earliest
  behaviour:
    topic: $beh
    key: { from: value, path: \$.user_id, type: string }
    time: { from: value, path: \$.ts, unit: ms, out_of_orderness: 5s, idle_after: never, max_future_skew: 3650d }
    start: earliest
plugin:
  file: $work/latest_dimension.wasm
  config: $(tr -d '\n' < plugins/latest-dimension/bench-config.json)
outputs:
  main: { topic: $out }
dead_letters: { topic: $out-dead-letters }
commit: { every: $every }
admin: { listen: "127.0.0.1:$port" }
state: { dir: $work/$name-state }
${lanes:+lanes: $lanes}
CONF
    printf '%s\n' "$@" >> "$work/$name.yaml"
}

# start_host NAME LOG [ARGUMENT...]: runs a configured host
start_host() {
    local name=$1 log=$2
    shift 2
    "$bin/dovetail" run "$work/$name.yaml" "$@" > "$work/$log.log" 2>&1 &
    peer=$!
}

# start_transport DIM BEH OUT MARK COMMIT_MS LOG: runs our transport alone
start_transport() {
    "$bin/examples/transport" "$bootstrap" "$1" "$2" "$3" "$4" follow "$5" ${lanes:+"$lanes"} \
        > "$work/$6.log" 2>&1 &
    peer=$!
}

# mark_first_record MARK: in the background, writes MARK when the host's metrics count a record
mark_first_record() {
    (
        while kill -0 "$peer" 2>/dev/null; do
            if get /metrics | grep -q '^dovetail_input_records_total.* [1-9]'; then
                echo "$(now_ms) $(gen cpu "$peer" | cut -d' ' -f1)" > "$1.tmp"
                mv "$1.tmp" "$1"
                exit
            fi
            # Asking without a pause would take a core from who is asked.
            sleep 0.02
        done
    ) &
}

end_peer() {
    [ -n "$peer" ] || return 0
    kill "${1:--TERM}" "$peer" 2>/dev/null
    wait "$peer" 2>/dev/null
    peer=
}

# start_pace NAME RATE SECONDS: first dimensions at full speed, then the mix at a fixed rate, into
# dim-NAME and beh-NAME; sets $pacing, and $mix_start once the mix is about to begin
start_pace() {
    gen pace "$bootstrap" "dim-$1" "beh-$1" "$2" "$3" 7 > "$work/$1.pace" 2>/dev/null &
    pacing=$!
    until [ -s "$work/$1.pace" ]; do
        kill -0 "$pacing" 2>/dev/null || die "the generator ended early"
        sleep 0.1
    done
    mix_start=$(field "$(head -n 1 "$work/$1.pace")" mix_start_ms)
}

# sleep_until MS: since 1970
sleep_until() {
    local left=$(($1 - $(now_ms)))
    [ "$left" -le 0 ] || sleep "$(printf '%d.%03d' $((left / 1000)) $((left % 1000)))"
}

# verify OUT EXPECTATION: compares all that is committed with what the generator expects
verify() {
    gen verify "$bootstrap" "$1" "$(field "$2" expected_outputs)" "$(field "$2" checksum)"
}

# steps LOG FROM_MS: the figures of what a host's log says from then on
steps() { gen steps "$work/$1.log" "$2"; }
