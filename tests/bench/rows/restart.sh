# shellcheck shell=bash
# restart: kill -9 while records come at a fixed rate, and at once a new process: once with the
# state directory, once without, from the checkpoint store. How long until every lane has committed,
# until a result is visible, and until nothing that becomes visible is older than a second.

RESTART_RATE=5000

# restarted KIND AT LIMIT: what a restart at AT (ms) has cost; LIMIT is when the next disturbance came
restarted() {
    local measured visible caught
    measured=$(steps "restart-$1" "$2")
    # The series has slots of 250 ms, by their ends; what was visible before the kill is left out.
    visible=$(awk -v at="$2" '$1 - 250 > at + 250 { print $1 - at; exit }' "$work/restart.series")
    caught=$(awk -v at="$2" -v limit="$3" '$1 > at && $1 < limit && $3 > 1000 { last = $1 - at } END { print last + 0 }' \
        "$work/restart.series")
    add restart "\"kind\":\"$1\",\"keys\":$RESTART_KEYS,\"measured\":$measured,\"visible_ms\":${visible:-0},\"caught_up_ms\":$caught"
}

measure_restart() {
    local name=restart partitions=4 lanes=$LANES keys=$RESTART_KEYS out=out-restart kept lost end pace observer
    gen topics "$bootstrap" "$out" "dim-$name" "beh-$name"
    host_config "$name" "dim-$name" "beh-$name" "$out" 100ms \
        "checkpoint: { store: \"file://$work/$name-store\" }"
    DOVETAIL_LOG=$STEPS start_host "$name" restart-first
    start_pace "$name" "$RESTART_RATE" 55
    gen latency "$bootstrap" "$out" 70 $((mix_start + 10000)) read_committed "$work/restart.series" restart > /dev/null &
    observer=$!
    sleep_until $((mix_start + 20000))
    end_peer -KILL
    kept=$(now_ms)
    DOVETAIL_LOG=$STEPS start_host "$name" restart-kept
    sleep_until $((mix_start + 35000))
    end_peer -KILL
    rm -rf "$work/$name-state"
    lost=$(now_ms)
    DOVETAIL_LOG=$STEPS start_host "$name" restart-lost
    wait "$pacing"
    end=$(now_ms)
    wait "$observer"
    end_peer
    pace=$(tail -n 1 "$work/$name.pace")
    restarted kept "$kept" "$lost"
    restarted lost "$lost" "$end"
    add restart "\"kind\":\"check\",\"check\":$(verify "$out" "$pace")"
    gen delete "$bootstrap" "$out" "dim-$name" "beh-$name" "$name.journal" "$out-dead-letters"
    rm -rf "$work/$name-state" "$work/$name-store"
}

table_restart() {
    local line
    rows restart | grep -v '"kind":"check"' | while read -r line; do
        echo "kill -9 with $(field "$line" keys) keys, disk $(field "$line" kind): every lane committed after $(field "$line" first_commits_ms) ms," \
            "a result visible after $(field "$line" visible_ms) ms, caught up after $(field "$line" caught_up_ms) ms"
    done
    echo "equal $(field "$(rows restart | tail -n 1)" equal)"
}
