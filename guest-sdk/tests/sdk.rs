//! The SDK over core's own lane: typed state, timers, and how calls fail.

use dovetail_sdk::{
    Context, Counter, EventTimeBuffer, Gauge, Harness, Histogram, Input, ListState, MapState,
    Output, Plugin, Record, Result, Setup, Timer, ValueState, fail, log,
};

/// Does what a record's value says; answers on `main`.
struct Script {
    commands: Input,
    main: Output,
    value: ValueState<u32>,
    map: MapState<(i64, String), u32>,
    list: ListState<String>,
    buffer: EventTimeBuffer<String>,
    measured: Counter,
    level: Gauge,
    sizes: Histogram,
    /// Lost with the instance.
    calls: u32,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {}

impl Plugin for Script {
    type Config = Config;

    fn open(_config: Config, setup: &mut Setup) -> Result<Self> {
        Ok(Self {
            commands: setup.input("commands"),
            main: setup.output("main"),
            value: setup.state("value").value(),
            map: setup.state("map").map(),
            list: setup.state("list").list(),
            buffer: setup.state("buffer").event_time_buffer(),
            measured: setup.counter("measured"),
            level: setup.gauge("level"),
            sizes: setup.histogram("sizes"),
            calls: 0,
        })
    }

    fn process_element(&mut self, record: Record<'_>, context: &mut Context<'_>) -> Result {
        assert_eq!(record.input, self.commands);
        self.calls += 1;
        let text = std::str::from_utf8(record.value.unwrap_or_default())?;
        let (command, rest) = text.split_once(' ').unwrap_or((text, ""));
        match command {
            "trap" => {
                self.value.put(context, &1)?;
                log!(context, Warn, "about to {rest}");
                let none: Option<u32> = rest.parse().ok();
                self.value.put(context, &none.expect("it is no number"))
            }
            "error" => fail!("refused by the plugin: {rest}"),
            "beyond" => {
                for _ in 0..=10_000 {
                    self.main.emit(context, "x");
                }
                Ok(())
            }
            "timers" => {
                let mut timers = context.timers();
                timers.register_event_time(10, 1);
                timers.register_event_time(10, 1);
                timers.register_event_time(5, 2);
                timers.register_processing_time(7, 3);
                timers.register_event_time(6, 4);
                timers.delete_event_time(6, 4);
                timers.continue_with(9);
                Ok(())
            }
            "calls" => {
                self.say(context, self.calls);
                Ok(())
            }
            "about" => {
                let key = String::from_utf8(context.key().unwrap_or_default())?;
                let about =
                    (key, context.watermark(), context.is_late(), context.position().offset);
                self.say(context, format!("{about:?}"));
                Ok(())
            }
            "list" => {
                self.list.push(context, &rest.to_owned())?;
                let all = self.list.all(context)?;
                let length = self.list.len(context)?;
                self.say(context, format!("{length} {}", all.join(" ")));
                Ok(())
            }
            "buffer" => self.buffer(rest, record.time.unwrap_or(0), context),
            "map" => self.map(context),
            "measure" => self.measure(rest, context),
            _ => fail!("unknown command `{command}`"),
        }
    }

    fn on_timer(&mut self, timer: Timer, context: &mut Context<'_>) -> Result {
        self.say(
            context,
            format!("{:?} {} {} {:?}", timer.domain, timer.time, timer.tag, context.time()),
        );
        Ok(())
    }
}

impl Script {
    fn say(&self, context: &mut Context<'_>, text: impl ToString) {
        self.main.emit(context, text.to_string());
    }

    fn buffer(&self, item: &str, time: i64, context: &mut Context<'_>) -> Result {
        if item == "pop" {
            let popped = self.buffer.pop_until(context, time)?;
            self.say(context, format!("{popped:?}"));
            return Ok(());
        }
        self.buffer.push(context, time, &item.to_owned())?;
        let range = self.buffer.range(context, -5..=time)?;
        let items: Vec<_> = range.iter().map(|(slot, item)| (slot.time, item.as_str())).collect();
        let length = self.buffer.len(context)?;
        self.say(context, format!("{length} {items:?}"));
        Ok(())
    }

    /// Measures a number and then, where more follows, fails.
    fn measure(&self, rest: &str, context: &mut Context<'_>) -> Result {
        let (number, more) = rest.split_once(' ').unwrap_or((rest, ""));
        let number: f64 = number.parse()?;
        self.measured.add(context, 2.0);
        self.level.set(context, number);
        self.sizes.record(context, number);
        log!(context, Info, "measured {number}");
        if more.is_empty() { Ok(()) } else { fail!("{more}") }
    }

    fn map(&self, context: &mut Context<'_>) -> Result {
        for (time, name) in [(2, "b"), (-1, "z"), (2, "a"), (3, "")] {
            self.map.put(context, &(time, name.to_owned()), &7)?;
        }
        let key = |time: i64, name: &str| (time, name.to_owned());
        self.map.remove(context, &key(3, ""));
        let (first, has_more) = self.map.page(context, .., 1)?;
        self.say(context, format!("{first:?} {has_more}"));
        let range = self.map.range(context, key(-1, "z")..=key(2, "a"))?;
        self.say(context, range.len());
        self.map.remove_range(context, key(2, "a")..);
        let left = self.map.range(context, ..)?;
        self.say(context, left.len());
        self.map.clear(context);
        Ok(())
    }
}

fn script() -> Harness<Script> {
    Harness::new("").expect("it takes no configuration")
}

fn run(script: &mut Harness<Script>, time: i64, command: &str) -> Vec<String> {
    script.record("commands").key("k").time(time).value(command);
    script.values("main")
}

#[test]
fn a_panic_is_a_trap_with_message_and_place_that_undoes_its_call_alone() {
    let mut script = script();
    run(&mut script, 1, "calls");
    run(&mut script, 1, "trap it");
    let dead = script.dead_letters();
    assert_eq!(dead[0].reason, "plugin_trap");
    assert!(dead[0].message.contains("it is no number"), "{dead:?}");
    assert!(dead[0].message.contains("tests/sdk.rs:"), "{dead:?}");
    assert_eq!(script.rows(), 0);
    assert_eq!(script.log_lines(), ["about to it", "about to it"], "tried once more");
    assert_eq!(run(&mut script, 1, "calls"), ["1"], "on a fresh instance");
}

#[test]
fn errors_and_refused_calls_are_told_apart() {
    let mut script = script();
    run(&mut script, 1, "error 42");
    run(&mut script, 1, "beyond");
    let reasons: Vec<_> = script.dead_letters();
    assert_eq!(reasons[0].reason, "plugin_error");
    assert_eq!(reasons[0].message, "refused by the plugin: 42");
    assert_eq!(reasons[1].reason, "plugin_limit");
    assert!(script.take("main").is_empty());
}

#[test]
fn what_a_call_measures_and_logs_is_there_once_it_is_committed_and_gone_if_it_failed() {
    let mut script = script();
    run(&mut script, 1, "measure 3.5");
    run(&mut script, 1, "measure 1");
    let read = |script: &mut Harness<Script>| {
        ["measured", "level", "sizes"].map(|name| script.metric(name))
    };
    assert_eq!(read(&mut script), [4.0, 1.0, 4.5]);
    assert_eq!(script.log_lines(), ["measured 3.5", "measured 1"]);
    assert!(script.log_lines().is_empty(), "each line is taken once");

    run(&mut script, 1, "measure 9 and fail");
    assert_eq!(script.dead_letters().len(), 1);
    assert_eq!(read(&mut script), [4.0, 1.0, 4.5], "undone with its call");
    assert_eq!(script.log_lines(), ["measured 9", "measured 9"], "lines tell of failed calls, too");
    script.crash();
    assert_eq!(script.metric("measured"), 4.0);
    assert_eq!(script.metric("unknown"), 0.0);
}

#[test]
fn timers_fire_once_in_order_with_their_domain_and_time() {
    let mut script = script();
    assert_eq!(run(&mut script, 1, "timers"), ["Continue 1 9 Some(1)"]);
    script.clock(7);
    script.watermark(10);
    let expected = ["Processing 7 3 None", "Event 5 2 Some(5)", "Event 10 1 Some(10)"];
    assert_eq!(script.values("main"), expected);
    assert_eq!(script.rows(), 0);
}

#[test]
fn the_context_tells_key_watermark_lateness_and_place() {
    let mut script = script();
    script.watermark(5);
    assert_eq!(run(&mut script, 5, "about"), [r#"("k", 5, true, 0)"#]);
    assert_eq!(run(&mut script, 6, "about"), [r#"("k", 5, false, 1)"#]);
}

#[test]
fn a_list_keeps_the_order_of_its_items_over_a_restart() {
    let mut script = script();
    run(&mut script, 1, "list b");
    script.crash();
    assert_eq!(run(&mut script, 1, "list a"), ["2 b a"]);
}

#[test]
fn a_buffer_orders_by_time_then_by_arrival_and_leaves_nothing_behind() {
    let mut script = script();
    run(&mut script, 7, "buffer late");
    run(&mut script, -5, "buffer first");
    run(&mut script, 7, "buffer later");
    assert_eq!(run(&mut script, -9, "buffer out"), ["4 []"]);
    assert_eq!(
        run(&mut script, 8, "buffer end"),
        [r#"5 [(-5, "first"), (7, "late"), (7, "later"), (8, "end")]"#]
    );
    assert_eq!(run(&mut script, -5, "buffer pop"), [r#"[(-9, "out"), (-5, "first")]"#]);
    assert_eq!(run(&mut script, i64::MAX, "buffer pop").len(), 1);
    assert_eq!(script.rows(), 0);
}

#[test]
fn a_map_is_read_and_emptied_by_ranges_of_its_own_keys() {
    let mut script = script();
    let said = run(&mut script, 1, "map");
    assert_eq!(said, [r#"[((-1, "z"), 7)] true"#, "2", "1"]);
    assert_eq!(script.rows(), 0);
}
