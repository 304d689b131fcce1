//! The scenarios and every plugin's cases, on memory and on RocksDB, native and as component.
//!
//! The cases themselves say what must come out; here they are played on each kind of engine, so a
//! difference between them fails. Components are built before (`make test` does it).

use std::{path::PathBuf, sync::Arc};

use dovetail::sandbox::{Engine, MakeNative, Options, Outcome, run};
use dovetail_sdk::{NativePlugin, Plugin};

fn folder(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join(path)
}

/// The plugin compiled into this process.
pub(crate) fn native<P: Plugin + Send + 'static>() -> MakeNative {
    Arc::new(|config: &str| {
        let (plugin, descriptor) = NativePlugin::<P>::new(config)
            .map_err(|error| anyhow::anyhow!("the plugin does not open: {error}"))?;
        Ok((descriptor, Box::new(plugin) as _))
    })
}

fn played(path: &str, engine: Engine) -> Outcome {
    played_beside(&[], path, engine)
}

fn played_beside(foreign_keys: &'static [&'static str], path: &str, engine: Engine) -> Outcome {
    let options = Options { paths: vec![folder(path)], update: false, engine, foreign_keys };
    run(&options).unwrap_or_else(|error| panic!("{path} cannot be played: {error:#}"))
}

/// Plays the cases of a folder on all four engines.
fn hold_everywhere(path: &str, native: &MakeNative) {
    for on_disk in [false, true] {
        for native in [None, Some(Arc::clone(native))] {
            let kind = format!(
                "{path}, {}, {}",
                if native.is_some() { "native" } else { "component" },
                if on_disk { "RocksDB" } else { "memory" }
            );
            let outcome = played(path, Engine { native, on_disk });
            let (passed, failed) = outcome.passed_and_failed();
            assert_eq!(failed, 0, "{kind}:\n{}", outcome.to_text());
            assert!(passed > 0, "{kind}: no case was played");
        }
    }
}

#[test]
fn cases_of_order_payment_hold_on_every_engine() {
    hold_everywhere("plugins/order-payment", &native::<order_payment::OrderPayment>());
}

#[test]
fn cases_of_latest_dimension_hold_on_every_engine() {
    hold_everywhere("plugins/latest-dimension", &native::<latest_dimension::LatestDimension>());
}

#[test]
fn cases_of_interval_join_hold_on_every_engine() {
    hold_everywhere("plugins/interval-join", &native::<interval_join::IntervalJoin>());
}

#[test]
fn cases_of_as_of_hold_on_every_engine() {
    hold_everywhere("plugins/as-of", &native::<as_of::AsOf>());
}

#[test]
fn cases_of_table_join_hold_on_every_engine() {
    hold_everywhere("plugins/table-join", &native::<table_join::TableJoin>());
}

#[test]
fn cases_of_window_join_hold_on_every_engine() {
    hold_everywhere("plugins/window-join", &native::<window_join::WindowJoin>());
}

#[test]
fn cases_of_dedupe_hold_on_every_engine() {
    hold_everywhere("plugins/dedupe", &native::<dedupe::Dedupe>());
}

#[test]
fn cases_of_all_of_hold_on_every_engine() {
    hold_everywhere("plugins/all-of", &native::<all_of::AllOf>());
}

#[test]
fn cases_of_wide_row_hold_on_every_engine() {
    hold_everywhere("plugins/wide-row", &native::<wide_row::WideRow>());
}

#[test]
fn cases_of_dynamic_rules_hold_on_every_engine() {
    hold_everywhere("plugins/dynamic-rules", &native::<dynamic_rules::DynamicRules>());
}

#[test]
fn known_pains_of_joins_are_none_here() {
    hold_everywhere("tests/scenarios/pains", &native::<order_payment::OrderPayment>());
}

#[test]
fn cases_that_the_simulator_keeps_can_be_played_without_its_faults() {
    let native = native::<order_payment::OrderPayment>();
    let engine = Engine { native: Some(native), on_disk: false };
    let outcome = played_beside(&["sim"], "tests/sim/regressions/payment", engine);
    let (passed, failed) = outcome.passed_and_failed();
    assert!(passed >= 10 && failed == 0, "{}", outcome.to_text());
}

#[test]
fn p46_a_misbehaving_guest_costs_one_record_each_time() {
    hold_on_both_stores("tests/scenarios/guests/p46.yaml", 1);
}

#[test]
fn p29_keyed_state_expires_in_event_time() {
    hold_on_both_stores("tests/scenarios/guests/p29.yaml", 2);
}

#[test]
fn p24_a_tombstone_reaches_the_handler_without_a_value() {
    hold_on_both_stores("tests/scenarios/guests/p24.yaml", 1);
}

/// Plays cases of a guest that exists as component only.
fn hold_on_both_stores(path: &str, count: usize) {
    for on_disk in [false, true] {
        let outcome = played(path, Engine { native: None, on_disk });
        assert_eq!(outcome.passed_and_failed(), (count, 0), "{}", outcome.to_text());
    }
}
