# shellcheck shell=bash
# checkpoints: what taking them costs while records come at a fixed rate: commits beside an upload
# against commits without one, and what is uploaded against what has changed.

measure_checkpoints() {
    local name=checkpoints partitions=4 lanes=$LANES out=out-checkpoints pace measured check
    local seconds=$((CHECKPOINTS * CHECKPOINT_EVERY))
    gen topics "$bootstrap" "$out" "dim-$name" "beh-$name"
    host_config "$name" "dim-$name" "beh-$name" "$out" 100ms \
        "checkpoint: { every: ${CHECKPOINT_EVERY}s, store: \"file://$work/$name-store\" }"
    DOVETAIL_LOG=$STEPS start_host "$name" "$name"
    start_pace "$name" "$CHECKPOINT_RATE" "$seconds"
    wait "$pacing"
    sleep 2
    end_peer
    pace=$(tail -n 1 "$work/$name.pace")
    check=$(verify "$out" "$pace")
    measured=$(steps "$name" "$mix_start")
    add checkpoints "\"rate\":$CHECKPOINT_RATE,\"every_s\":$CHECKPOINT_EVERY,\"measured\":$measured,\"check\":$check"
    gen delete "$bootstrap" "$out" "dim-$name" "beh-$name" "$name.journal" "$out-dead-letters"
    rm -rf "$work/$name-state" "$work/$name-store"
}

table_checkpoints() {
    local line
    rows checkpoints | while read -r line; do
        echo "commits at $(field "$line" rate) records/s: p99 $(field "$line" commit_p99_ms) ms of $(field "$line" commit_count) without an upload," \
            "$(field "$line" uploading_p99_ms) ms of $(field "$line" uploading_count) beside one"
        echo "checkpoints: $(field "$line" upload_count) in $(field "$line" lanes) lanes, uploading $(field "$line" uploaded_times) x the bytes changed" \
            "($(field "$line" uploaded_bytes) of $(field "$line" changed_bytes) bytes), in $(field "$line" upload_p50_ms) ms; equal $(field "$line" equal)"
    done
}
