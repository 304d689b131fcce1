# shellcheck shell=bash
# catchup: all the input is there before the job starts. How much it does per second and per second
# of CPU time: our transport alone, the host, and the host without what exactly-once needs; in turns,
# since a machine's speed changes within minutes, and after a run that is not counted, since a broker
# that was just started is still compiling its own code.

# load_inputs SUFFIX: fills dimSUFFIX and behSUFFIX; sets $load
load_inputs() {
    echo "Loading $EVENTS records into $partitions partitions"
    load=$(gen load "$bootstrap" "dim$1" "beh$1" "$EVENTS" 42 7200) || die "loading failed"
}

# catch_up ROW KIND RUN SUFFIX: one run over the loaded input, added as a result of ROW; RUN 0 is not
catch_up() {
    local row=$1 kind=$2 run=$3 dim=dim$4 beh=beh$4 name="$1-$2-$3$4${lanes:+-$lanes}"
    local out=out-$name mark=$work/$name.mark expected measured check='{}'
    gen topics "$bootstrap" "$out"
    if [ "$kind" = transport ]; then
        expected=$(field "$load" loaded)
        start_transport "$dim" "$beh" "$out" "$mark" 100 "$name"
    else
        expected=$(field "$load" expected_outputs)
        host_config "$name" "$dim" "$beh" "$out" 100ms
        case $kind in
            host) start_host "$name" "$name" ;;
            host-without) start_host "$name" "$name" --benchmark-without-exactly-once ;;
        esac
        mark_first_record "$mark"
    fi
    measured=$(gen wait "$bootstrap" "$out" "$expected" "$(field "$load" loaded)" "$mark" "$peer" "$broker" 300)
    end_peer
    [ "$kind" = transport ] || check=$(verify "$out" "$load")
    [ -n "$(field "$measured" seconds)" ] || tail -n 5 "$work/$name.log" >&2
    [ "$run" -eq 0 ] || add "$row" "\"kind\":\"$kind\",\"run\":$run,\"partitions\":$partitions,\"lanes\":\"${lanes:-default}\",\"measured\":$measured,\"check\":$check"
    gen delete "$bootstrap" "$out" "$name.journal" "$out-dead-letters"
    rm -rf "$work/$name-state"
}

measure_catchup() {
    local partitions=4 lanes=$LANES run kind kinds="transport host host-without"
    load_inputs ""
    catch_up catchup host 0 ""
    for run in $(seq "$RUNS"); do
        for kind in $kinds; do catch_up catchup "$kind" "$run" ""; done
        # Whoever comes first meets a broker that has rested.
        kinds=$(printf '%s\n' $kinds | tac)
    done
}

# of_kind ROW KIND NAME [PATTERN]: one figure of each run
of_kind() {
    rows "$1" | grep "\"kind\":\"$2\"" | grep -e "${4:-}" |
        while read -r line; do echo "$(field "$line" "$3")"; done
}

table_catchup() {
    local format='%-14s %4s %12s %12s %12s %8s %s\n' line with without
    # shellcheck disable=SC2059 # the format is ours
    printf "$format" kind run records/s host-s/M broker-s/M MB equal
    rows catchup | while read -r line; do
        # shellcheck disable=SC2059
        printf "$format" "$(field "$line" kind)" "$(field "$line" run)" \
            "$(field "$line" events_per_s)" "$(field "$line" peer_cpu_s_per_M)" \
            "$(field "$line" broker_cpu_s_per_M)" "$(field "$line" peer_peak_rss_mb)" "$(field "$line" equal)"
    done
    with=$(of_kind catchup host events_per_s | median)
    without=$(of_kind catchup host-without events_per_s | median)
    awk -v with="$with" -v without="$without" 'BEGIN { if (with > 0 && without > 0)
        printf "medians: %d with, %d without: exactly-once costs %.0f %% of the throughput\n", with, without, 100 * (1 - with / without) }'
}
