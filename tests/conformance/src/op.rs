//! The operations that are known, one module each.

mod interval;
mod keyed_co;
mod scheduling;
mod tables;
mod ttl;
mod versions;
mod watermarks;
mod windows;

use crate::{
    case::{Case, Failure},
    plugins::Plugins,
};

/// Runs a case.
pub(crate) fn run(case: &Case, plugins: &Plugins) -> Result<(), Failure> {
    match case.op.as_str() {
        "keyed_co" => keyed_co::run(case),
        "boo" => watermarks::bounded_out_of_orderness(case),
        "idleness" => watermarks::idleness(case),
        "combined" => watermarks::combined(case),
        "partition_group" => scheduling::run(case),
        "ttl" => ttl::run(case),
        "interval_join" | "outer_interval_join" | "semi_interval_join" | "anti_interval_join" => {
            interval::run(case, plugins)
        }
        "ks_table_table" => tables::table_table(case, plugins),
        "ks_stream_table" => tables::stream_table(case, plugins),
        "temporal_rowtime" => tables::temporal_rowtime(case, plugins),
        "temporal_proctime" => tables::temporal_proctime(case, plugins),
        "versioned_store" => versions::run(case),
        "window" => windows::window(case, plugins),
        "window_start" => windows::window_start(case),
        "window_assign" => windows::window_assign(case),
        "sql_window_join" => windows::given_windows(case, plugins),
        other => Err(Failure::Unknown(other.to_owned())),
    }
}
