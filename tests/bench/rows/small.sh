# shellcheck shell=bash
# small: the parts by themselves (Criterion).

measure_small() {
    cargo bench --workspace --bench '*' --profile release -- --noplot > "$work/small.log" 2>&1 ||
        { tail -n 20 "$work/small.log" >&2; die "a small benchmark failed"; }
}

table_small() { grep -E '^[a-z]|time: .*s\]|thrpt: .*elem/s' "$work/small.log"; }
