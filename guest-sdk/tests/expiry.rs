//! What is expired is in no read: whole states and single entries, before and after a restart, and
//! under another length.

use dovetail_sdk::{
    Context, Expiry, Harness, MapState, Millis, Output, Plugin, Record, Result, Setup, Timer,
    ValueState,
};

/// Keeps what a record says, and tells everything that it can read.
struct Reads {
    main: Output,
    value: ValueState<i64>,
    entries: MapState<i64, i64>,
}

#[derive(serde::Deserialize)]
struct Config {
    after: Millis,
    #[serde(default)]
    refreshes: bool,
}

impl Plugin for Reads {
    type Config = Config;

    fn open(config: Config, setup: &mut Setup) -> Result<Self> {
        setup.input("records");
        let expiry = Expiry::event_time(config.after);
        let expiry = if config.refreshes { expiry.refreshed_by_reads() } else { expiry };
        Ok(Self {
            main: setup.output("main"),
            value: setup.state("value").expiry(expiry).value(),
            entries: setup.state("entries").expiry(expiry).map(),
        })
    }

    fn process_element(&mut self, record: Record<'_>, context: &mut Context<'_>) -> Result {
        let time = record.time.unwrap_or(0);
        match record.value {
            Some(b"put") => {
                self.value.put(context, &time)?;
                self.entries.put(context, &time, &time)
            }
            Some(b"get") => {
                let value = self.value.get(context)?;
                let got: Vec<_> = (0..30)
                    .filter_map(|entry| self.entries.get(context, &entry).transpose())
                    .collect::<Result<_>>()?;
                self.main.emit(context, format!("{value:?} {got:?}"));
                Ok(())
            }
            Some(b"remove") => {
                self.entries.remove_range(context, ..);
                Ok(())
            }
            _ => {
                let ranged = self.entries.range(context, ..)?;
                let (page, has_more) = self.entries.page(context, .., 2)?;
                let (ranged, page) = (entries(ranged), entries(page));
                self.main.emit(context, format!("{ranged:?} {page:?} {has_more}"));
                Ok(())
            }
        }
    }

    fn on_timer(&mut self, _: Timer, _: &mut Context<'_>) -> Result {
        Ok(())
    }
}

fn entries(found: Vec<(i64, i64)>) -> Vec<i64> {
    found.into_iter().map(|(entry, _)| entry).collect()
}

fn reads(config: &str) -> Harness<Reads> {
    let mut reads = Harness::new(config).expect("the configuration is right");
    for time in [1, 2, 3, 10, 20] {
        tell(&mut reads, time, "put");
    }
    reads
}

fn tell(reads: &mut Harness<Reads>, time: i64, command: &str) -> String {
    reads.record("records").key("k").time(time).value(command);
    reads.values("main").pop().unwrap_or_default()
}

#[test]
fn expired_entries_are_in_no_read_before_and_after_a_restart() {
    let mut reads = reads(r#"{"after":"10ms"}"#);
    reads.watermark(11);
    assert_eq!(tell(&mut reads, 12, "scan"), "[2, 3, 10, 20] [2, 3] true");
    for restarts in [false, true] {
        reads.watermark(12);
        if restarts {
            reads.commit();
            reads.crash();
        }
        assert_eq!(tell(&mut reads, 13, "get"), "Some(20) [3, 10, 20]", "{restarts}");
        assert_eq!(tell(&mut reads, 13, "scan"), "[3, 10, 20] [3, 10] true", "{restarts}");
    }
    reads.watermark(29);
    assert_eq!(tell(&mut reads, 30, "get"), "Some(20) [20]");
    reads.watermark(30);
    assert_eq!(tell(&mut reads, 31, "get"), "None []");
    assert_eq!(tell(&mut reads, 31, "scan"), "[] [] false");
    // What a reader does not see any more is removed with its range all the same.
    assert!(reads.rows() > 0);
    tell(&mut reads, 31, "remove");
    assert_eq!(reads.rows(), 1, "the value waits for its compaction");
}

#[test]
fn another_length_is_in_force_for_what_is_there() {
    for (after, found) in [(5, "None []"), (9, "Some(20) [20]"), (40, "Some(20) [1, 2, 3, 10, 20]")]
    {
        let mut reads = reads(r#"{"after":"10ms"}"#);
        reads.watermark(28);
        assert_eq!(tell(&mut reads, 29, "get"), "Some(20) [20]");
        reads.reconfigure(&format!(r#"{{"after":"{after}ms"}}"#)).unwrap();
        assert_eq!(tell(&mut reads, 29, "get"), found, "{after}");
    }
}

#[test]
fn a_read_renews_what_is_refreshed_by_reads() {
    let mut reads = reads(r#"{"after":"10ms","refreshes":true}"#);
    reads.watermark(12);
    assert_eq!(tell(&mut reads, 13, "scan"), "[3, 10, 20] [3, 10] true");
    reads.watermark(22);
    assert_eq!(tell(&mut reads, 23, "get"), "Some(20) [3, 10, 20]");
    reads.watermark(33);
    assert_eq!(tell(&mut reads, 34, "get"), "None []");
}
