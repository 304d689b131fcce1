# shellcheck shell=bash
# lanes: the catch-up with more partitions, in few and in many lanes.

measure_lanes() {
    local shape partitions lanes kind run loaded=
    for run in $(seq "$RUNS"); do
        for shape in 4:4 16:4 16:16; do
            partitions=${shape%:*} lanes=${shape#*:}
            if [ "$partitions" != "$loaded" ]; then
                gen delete "$bootstrap" "dim-lanes$loaded" "beh-lanes$loaded"
                load_inputs "-lanes$partitions"
                loaded=$partitions
            fi
            for kind in transport host; do catch_up lanes "$kind" "$run" "-lanes$partitions"; done
        done
    done
    gen delete "$bootstrap" "dim-lanes$loaded" "beh-lanes$loaded"
}

table_lanes() {
    local format='%-10s %10s %6s %12s %12s %12s %8s %s\n' shape kind pattern
    # shellcheck disable=SC2059 # the format is ours
    printf "$format" kind partitions lanes records/s host-s/M broker-s/M MB equal
    for shape in 4:4 16:4 16:16; do
        for kind in transport host; do
            pattern="\"partitions\":${shape%:*},\"lanes\":\"${shape#*:}\""
            # shellcheck disable=SC2059
            printf "$format" "$kind" "${shape%:*}" "${shape#*:}" \
                "$(of_kind lanes "$kind" events_per_s "$pattern" | median)" \
                "$(of_kind lanes "$kind" peer_cpu_s_per_M "$pattern" | median)" \
                "$(of_kind lanes "$kind" broker_cpu_s_per_M "$pattern" | median)" \
                "$(of_kind lanes "$kind" peer_peak_rss_mb "$pattern" | median)" \
                "$(of_kind lanes "$kind" equal "$pattern" | sort -u | tr '\n' ' ')"
        done
    done
}
