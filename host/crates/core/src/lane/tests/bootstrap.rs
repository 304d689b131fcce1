//! `bootstrap: until_end_offset`: what is loaded first, and what that does to time.

use super::harness::{Harness, value};
use crate::{
    context::{Context, ContextError, emit::OutputKey},
    options::WatermarkRule,
    record::Headers,
    time::NO_WATERMARK,
};

const LEFT: u16 = 0;
const TABLE: u16 = 1;

/// Emits `value`, and whether it was late.
fn echo(context: &mut Context) -> Result<(), ContextError> {
    let late = if context.is_late() { " late" } else { "" };
    let text = format!("{}{late}", value(context));
    context.emit(0, OutputKey::Current, Some(text.as_bytes()), &Headers::default(), None)
}

fn loading() -> Harness {
    Harness::with_options(echo, |options| options.inputs[usize::from(TABLE)].bootstrap = true)
}

fn texts(harness: &mut Harness) -> Vec<String> {
    harness.outputs().into_iter().map(|(_, text)| text).collect()
}

fn at_end(harness: &mut Harness, input: u16) {
    harness.at_end(input);
    harness.work();
}

#[test]
fn a_table_whose_rows_are_newer_is_loaded_before_the_other_input_and_makes_nothing_late() {
    let mut harness = loading();
    harness.add(LEFT, Some("k"), Some(1_000), "order");
    for (time, name) in [(9_000, "row 1"), (9_500, "row 2")] {
        harness.add(TABLE, Some("k"), Some(time), name);
    }
    // Longer than any wait.
    harness.clock(1_000_000);
    assert_eq!(texts(&mut harness), ["row 1", "row 2"]);
    assert_eq!(harness.watermark(), 999, "the head that waits holds it");
    at_end(&mut harness, TABLE);
    assert_eq!(texts(&mut harness), ["order"]);
}

#[test]
fn an_input_that_waits_holds_the_watermark_without_a_record_too() {
    let mut harness = loading();
    harness.add(TABLE, Some("k"), Some(9_000), "row");
    at_end(&mut harness, LEFT);
    // It would be idle by now.
    harness.clock(50_000);
    assert_eq!(harness.watermark(), NO_WATERMARK);
    harness.add(LEFT, Some("k"), Some(1_000), "order");
    at_end(&mut harness, TABLE);
    at_end(&mut harness, LEFT);
    assert_eq!(texts(&mut harness), ["row", "order"]);
    assert_eq!(harness.watermark(), 999);
    // From when it was loaded on idleness counts as ever.
    harness.clock(60_000);
    assert_eq!(harness.watermark(), 8_999);
}

#[test]
fn after_a_restore_it_is_loaded_again_up_to_its_end() {
    let mut harness = loading();
    harness.add(TABLE, Some("k"), Some(9_000), "row 1");
    harness.settle();
    assert_eq!(texts(&mut harness), ["row 1"]);
    harness.commit();
    harness.crash();
    harness.add(LEFT, Some("k"), Some(1_000), "order");
    harness.work();
    harness.clock(1_000_000);
    assert_eq!(texts(&mut harness), [""; 0]);
    let waits = harness.lane().status().sources.iter().map(|it| it.is_waiting).collect::<Vec<_>>();
    assert_eq!(waits, [true, false]);
    at_end(&mut harness, TABLE);
    assert_eq!(texts(&mut harness), ["order"]);
}

#[test]
fn a_broadcast_input_can_be_loaded_first_too() {
    let mut harness = Harness::with_options(echo, |options| {
        let table = &mut options.inputs[usize::from(TABLE)];
        (table.bootstrap, table.is_broadcast) = (true, true);
        table.watermark = WatermarkRule::None;
    });
    harness.add(LEFT, Some("k"), Some(1_000), "order");
    harness.clock(1_000_000);
    assert_eq!(texts(&mut harness), [""; 0]);
    at_end(&mut harness, TABLE);
    assert_eq!(texts(&mut harness), ["order"]);
}
