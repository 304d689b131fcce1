//! Broadcast inputs and states under the harness: what reaches what, and what survives.

use dovetail_sdk::{
    BroadcastMap, BroadcastValue, Context, Harness, Input, Output, Plugin, Record, Result, Setup,
    Timer, ValueState,
};

#[derive(serde::Deserialize)]
struct Config {}

/// Answers orders with the rule in force; text values of rules and orders say what to misuse.
struct Ruled {
    rules: Input,
    main: Output,
    by_class: BroadcastMap<String, String>,
    version: BroadcastValue<u64>,
    seen: ValueState<u64>,
}

impl Ruled {
    fn answer(&self, context: &mut Context<'_>, class: &str) -> Result {
        let rule = self.by_class.get(context, &class.to_owned())?.unwrap_or("none".to_owned());
        let version = self.version.get(context)?.unwrap_or(0);
        self.main.emit(context, format!("{class}: {rule} ({version})"));
        Ok(())
    }
}

impl Plugin for Ruled {
    type Config = Config;

    fn open(_config: Config, setup: &mut Setup) -> Result<Self> {
        setup.input("orders");
        Ok(Self {
            rules: setup.broadcast_input("rules"),
            main: setup.output("main"),
            by_class: setup.broadcast_state("by_class").map(),
            version: setup.broadcast_state("version").value(),
            seen: setup.state("seen").value(),
        })
    }

    fn process_element(&mut self, record: Record<'_>, context: &mut Context<'_>) -> Result {
        let class = String::from_utf8_lossy(record.value.unwrap_or_default()).into_owned();
        match class.as_str() {
            "put" => self.by_class.put(context, &class, &class)?,
            "clear" => self.by_class.clear(context),
            "remove" => self.version.remove(context),
            _ => {
                let seen = self.seen.get(context)?.unwrap_or(0);
                self.seen.put(context, &(seen + 1))?;
                context.timers().register_event_time(100, 0);
            }
        }
        self.answer(context, &class)
    }

    fn process_broadcast(&mut self, record: Record<'_>, context: &mut Context<'_>) -> Result {
        assert_eq!(record.input, self.rules);
        let class = String::from_utf8_lossy(&context.key().unwrap_or_default()).into_owned();
        let version = self.version.get(context)?.unwrap_or(0) + 1;
        self.version.put(context, &version)?;
        let Some(value) = record.value else {
            self.by_class.remove(context, &class);
            return Ok(());
        };
        let value = String::from_utf8_lossy(value).into_owned();
        self.by_class.put(context, &class, &value)?;
        match value.as_str() {
            "keyed" => self.seen.put(context, &1)?,
            "timer" => context.timers().register_event_time(1, 1),
            "continue" => context.timers().continue_with(1),
            "error" => dovetail_sdk::fail!("no such rule"),
            _ => {
                let all = self.by_class.range(context, ..)?;
                self.main.emit(context, format!("{} rules", all.len()));
            }
        }
        Ok(())
    }

    fn on_timer(&mut self, _timer: Timer, context: &mut Context<'_>) -> Result {
        self.answer(context, "timer")
    }
}

fn harness() -> Harness<Ruled> {
    Harness::new("{}").expect("it opens")
}

fn rule(harness: &mut Harness<Ruled>, class: &str, text: &str) {
    harness.record("rules").key(class).value(text);
}

#[test]
fn every_key_and_every_timer_sees_the_rule_that_is_in_force() {
    let mut harness = harness();
    harness.record("orders").key("a").time(1).value("gold");
    rule(&mut harness, "gold", "30m");
    rule(&mut harness, "timer", "late");
    harness.record("orders").key("a").time(2).value("gold");
    harness.record("orders").key("b").time(3).value("gold");
    harness.record("rules").key("gold").tombstone();
    harness.record("orders").key("b").time(4).value("gold");
    harness.watermark(100);
    assert_eq!(
        harness.values("main"),
        [
            "gold: none (0)",
            "1 rules",
            "2 rules",
            "gold: 30m (2)",
            "gold: 30m (2)",
            "gold: none (3)",
            "timer: late (3)",
            "timer: late (3)",
        ]
    );
}

#[test]
fn broadcast_state_is_written_while_a_broadcast_record_is_handled_and_not_otherwise() {
    let mut harness = harness();
    rule(&mut harness, "gold", "30m");
    for misuse in ["put", "clear", "remove"] {
        harness.record("orders").key("a").time(1).value(misuse);
        let dead = harness.dead_letters();
        assert_eq!(dead[0].reason, "plugin_limit", "{misuse}");
        assert!(dead[0].message.contains("while a broadcast record is handled"), "{dead:?}");
    }
    harness.record("orders").key("a").time(1).value("gold");
    assert_eq!(harness.values("main"), ["1 rules", "gold: 30m (1)"]);
}

#[test]
fn a_broadcast_record_reaches_no_key_and_a_failed_one_leaves_nothing_behind() {
    let mut harness = harness();
    for misuse in ["keyed", "timer", "continue"] {
        rule(&mut harness, "gold", misuse);
        let dead = harness.dead_letters();
        assert_eq!((dead.len(), dead[0].reason.as_str()), (1, "plugin_limit"), "{misuse}");
        assert!(dead[0].message.contains("belongs to no key"), "{dead:?}");
        assert_eq!(dead[0].value.as_deref(), Some(misuse), "its original bytes");
    }
    rule(&mut harness, "gold", "error");
    assert_eq!(harness.dead_letters()[0].reason, "plugin_error");
    harness.record("orders").key("a").time(1).value("gold");
    assert_eq!(harness.values("main"), ["gold: none (0)"]);
}

#[test]
fn rules_survive_a_crash_as_far_as_they_were_committed() {
    let mut harness = harness();
    rule(&mut harness, "gold", "30m");
    harness.commit();
    rule(&mut harness, "gold", "5m");
    harness.crash();
    harness.record("orders").key("a").time(1).value("gold");
    assert_eq!(harness.values("main"), ["1 rules", "gold: 30m (1)"]);
}
