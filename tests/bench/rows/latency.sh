# shellcheck shell=bash
# latency: how old a record is when its result becomes visible to a read_committed reader, at a fixed
# rate; our transport alone, then the host. A broker that was just started compiles its own code for
# the first half minute of commits, which is seconds of latency: one run before all others is not
# counted.

# latency NUMBER KIND RATE COMMIT: NUMBER 0 is not counted
latency() {
    local kind=$2 rate=$3 every=$4 name=latency-$1-$2-$3-$4 partitions=4 lanes=$LANES
    local out=out-$name measured pace rss check='{}'
    gen topics "$bootstrap" "$out" "dim-$name" "beh-$name"
    case $kind in
        transport) start_transport "dim-$name" "beh-$name" "$out" "$work/$name.mark" "${every%ms}" "$name" ;;
        host) host_config "$name" "dim-$name" "beh-$name" "$out" "$every"; start_host "$name" "$name" ;;
    esac
    start_pace "$name" "$rate" "$SECONDS_EACH"
    # The first seconds belong to whatever has just been started.
    measured=$(gen latency "$bootstrap" "$out" $((SECONDS_EACH + 10)) $((mix_start + 10000)) read_committed "$work/$name.series" "$name")
    wait "$pacing"
    rss=$(gen cpu "$peer" | cut -d' ' -f2)
    end_peer
    pace=$(tail -n 1 "$work/$name.pace")
    [ "$kind" = transport ] || check=$(verify "$out" "$pace")
    [ "$1" -eq 0 ] || add latency "\"kind\":\"$kind\",\"rate\":$rate,\"commit\":\"$every\",\"measured\":$measured,\"peak_rss_mb\":$rss,\"worst_lag_ms\":$(field "$pace" worst_lag_ms),\"check\":$check"
    gen delete "$bootstrap" "$out" "dim-$name" "beh-$name" "$name.journal" "$out-dead-letters"
    rm -rf "$work/$name-state"
}

measure_latency() {
    local point number=0 kind
    echo "Warming up the broker"
    latency 0 transport 5000 25ms
    for point in $LATENCY; do
        number=$((number + 1))
        for kind in transport host; do latency "$number" "$kind" "${point%:*}" "${point#*:}"; done
    done
}

table_latency() {
    local format='%-10s %-8s %-8s %8s %8s %8s %8s %s\n' line
    # shellcheck disable=SC2059 # the format is ours
    printf "$format" kind rate commit p50-ms p99-ms lag-ms MB equal
    rows latency | while read -r line; do
        # shellcheck disable=SC2059
        printf "$format" "$(field "$line" kind)" "$(field "$line" rate)" "$(field "$line" commit)" \
            "$(field "$line" p50_ms)" "$(field "$line" p99_ms)" "$(field "$line" worst_lag_ms)" \
            "$(field "$line" peak_rss_mb)" "$(field "$line" equal)"
    done
    echo "lag-ms: how late the generator was at worst; what is above it is not the host's alone"
}
