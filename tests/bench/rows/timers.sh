# shellcheck shell=bash
# timers: as many behaviours wait as TIMERS says, none gets its dimension, and one record per
# partition makes all of their timers due at once. From one commit to the next, over the whole run.

measure_timers() {
    local name=timers partitions=4 lanes=$LANES keys=1000000 out=out-timers load measured check
    gen topics "$bootstrap" "$out"
    load=$(gen --no-dimensions load "$bootstrap" "dim-$name" "beh-$name" "$TIMERS" 42 600) || die "loading failed"
    host_config "$name" "dim-$name" "beh-$name" "$out" 100ms
    DOVETAIL_LOG=$STEPS start_host "$name" "$name"
    mark_first_record "$work/$name.mark"
    measured=$(gen wait "$bootstrap" "$out" "$(field "$load" expected_outputs)" "$(field "$load" loaded)" "$work/$name.mark" "$peer" "$broker" 300)
    end_peer
    check=$(verify "$out" "$load")
    add timers "\"timers\":$TIMERS,\"measured\":$measured,\"steps\":$(steps "$name" 0),\"check\":$check"
    gen delete "$bootstrap" "$out" "dim-$name" "beh-$name" "$name.journal" "$out-dead-letters"
    rm -rf "$work/$name-state"
}

table_timers() {
    local line
    rows timers | while read -r line; do
        echo "$(field "$line" timers) timers due at once: registered and fired in $(field "$line" seconds) s; an epoch was open" \
            "for $(field "$line" epoch_p50_ms) ms in the median, $(field "$line" epoch_max_ms) at most; its commit took" \
            "$(field "$line" commit_p50_ms), $(field "$line" commit_max_ms) at most; from one commit to the next" \
            "$(field "$line" cycle_p50_ms), $(field "$line" cycle_max_ms) at most; equal $(field "$line" equal)"
    done
}
