//! Declaring what a plugin uses, and the description made from it.
//!
//! Invariant: `describe` and `open` run the same code, so a handle's number is the place the
//! description gives it.

use serde::Serialize;

use crate::{
    config::Millis,
    error::{Error, Result},
    handles::{Counter, Gauge, Histogram, Input, Output},
    join::VersionedTable,
    plugin::Plugin,
    state::{
        BroadcastMap, BroadcastValue, EntryKey, EventTimeBuffer, ListState, MapState, ValueState,
    },
};

/// What a plugin says of itself for one configuration, as the host reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Description {
    version: u32,
    pub(crate) inputs: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) broadcast: Vec<String>,
    pub(crate) outputs: Vec<String>,
    pub(crate) states: Vec<DescribedState>,
    pub(crate) metrics: Vec<DescribedMetric>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct DescribedState {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    #[serde(skip_serializing_if = "Scope::is_keyed")]
    pub(crate) scope: Scope,
    pub(crate) schema_version: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expiry: Option<Expiry>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Value,
    Map,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Scope {
    Keyed,
    Broadcast,
}

impl Scope {
    fn is_keyed(&self) -> bool {
        *self == Self::Keyed
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct DescribedMetric {
    pub(crate) name: String,
    pub(crate) kind: MetricKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum MetricKind {
    Counter,
    Gauge,
    Histogram,
}

/// How entries of a state expire: invisible once stamp + length ≤ clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Expiry {
    pub(crate) after_ms: i64,
    pub(crate) domain: ExpiryDomain,
    pub(crate) refresh: Refresh,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ExpiryDomain {
    Event,
    Processing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Refresh {
    Write,
    ReadAndWrite,
}

impl Expiry {
    /// Counts in event time: the stamp is max(event time at hand, watermark), the clock the
    /// watermark.
    #[must_use]
    pub fn event_time(after: Millis) -> Self {
        Self { after_ms: after.0, domain: ExpiryDomain::Event, refresh: Refresh::Write }
    }

    /// Counts in the lane's processing time.
    #[must_use]
    pub fn processing_time(after: Millis) -> Self {
        Self { domain: ExpiryDomain::Processing, ..Self::event_time(after) }
    }

    /// Lets reading renew an entry as writing does.
    #[must_use]
    pub fn refreshed_by_reads(self) -> Self {
        Self { refresh: Refresh::ReadAndWrite, ..self }
    }
}

/// Where `open` declares what the plugin uses.
#[derive(Debug)]
pub struct Setup {
    description: Description,
    problems: Vec<String>,
}

impl Setup {
    pub(crate) fn new() -> Self {
        let description = Description {
            version: 1,
            inputs: Vec::new(),
            broadcast: Vec::new(),
            outputs: Vec::new(),
            states: Vec::new(),
            metrics: Vec::new(),
        };
        Self { description, problems: Vec::new() }
    }

    /// Declares an input role; asked for twice it is the same.
    pub fn input(&mut self, name: &str) -> Input {
        Input(place(&mut self.description.inputs, name))
    }

    /// Declares an input role whose records every lane gets, for [`Plugin::process_broadcast`]; asked
    /// for twice it is the same. The pipeline file says `broadcast: true` of it.
    pub fn broadcast_input(&mut self, name: &str) -> Input {
        place(&mut self.description.broadcast, name);
        self.input(name)
    }

    /// Declares an output; asked for twice it is the same.
    pub fn output(&mut self, name: &str) -> Output {
        Output(place(&mut self.description.outputs, name))
    }

    /// Declares a named state; the builder says of which kind. The name is its identity: it stays
    /// when the plugin changes.
    pub fn state(&mut self, name: &str) -> StateBuilder<'_> {
        StateBuilder { setup: self, name: name.to_owned(), schema_version: 1, expiry: None }
    }

    /// Declares a named state that is the same for every key: written while broadcast records are
    /// handled, read by every handler. It does not expire.
    pub fn broadcast_state(&mut self, name: &str) -> BroadcastStateBuilder<'_> {
        let StateBuilder { setup, name, schema_version, .. } = self.state(name);
        BroadcastStateBuilder { setup, name, schema_version }
    }

    /// Declares a counter.
    pub fn counter(&mut self, name: &str) -> Counter {
        Counter(self.metric(name, MetricKind::Counter))
    }

    /// Declares a gauge.
    pub fn gauge(&mut self, name: &str) -> Gauge {
        Gauge(self.metric(name, MetricKind::Gauge))
    }

    /// Declares a histogram.
    pub fn histogram(&mut self, name: &str) -> Histogram {
        Histogram(self.metric(name, MetricKind::Histogram))
    }

    fn metric(&mut self, name: &str, kind: MetricKind) -> u32 {
        let metrics = &mut self.description.metrics;
        if let Some(at) = metrics.iter().position(|metric| metric.name == name) {
            if metrics[at].kind != kind {
                self.problems.push(format!("metric `{name}` is declared with two kinds"));
            }
            return number(at);
        }
        metrics.push(DescribedMetric { name: name.to_owned(), kind });
        number(metrics.len() - 1)
    }

    pub(crate) fn has_input(&self, name: &str) -> bool {
        self.description.inputs.iter().any(|input| input == name)
    }

    fn declare(&mut self, state: DescribedState) -> u32 {
        let name = &state.name;
        if self.description.states.iter().any(|known| known.name == *name) {
            self.problems.push(format!("state `{name}` is declared twice"));
        }
        if state.expiry.is_some_and(|expiry| expiry.after_ms < 1) {
            self.problems.push(format!("state `{name}`: an expiry is at least 1 ms"));
        }
        self.description.states.push(state);
        number(self.description.states.len() - 1)
    }

    fn finish(self) -> Result<Description> {
        if self.problems.is_empty() {
            return Ok(self.description);
        }
        Err(Error::new(self.problems.join("; ")))
    }
}

fn place(names: &mut Vec<String>, name: &str) -> u32 {
    let at = names.iter().position(|known| known == name).unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    });
    number(at)
}

fn number(at: usize) -> u32 {
    u32::try_from(at).expect("fewer than 2^32 declarations")
}

/// Declares one state.
#[derive(Debug)]
pub struct StateBuilder<'s> {
    setup: &'s mut Setup,
    name: String,
    schema_version: u16,
    expiry: Option<Expiry>,
}

impl StateBuilder<'_> {
    /// Says which version of its type the plugin writes (1 unless said): another type under the
    /// same name needs a higher one.
    #[must_use]
    pub fn schema_version(mut self, version: u16) -> Self {
        self.schema_version = version;
        self
    }

    /// Lets entries expire.
    #[must_use]
    pub fn expiry(mut self, expiry: Expiry) -> Self {
        self.expiry = Some(expiry);
        self
    }

    /// One value per key.
    #[must_use]
    pub fn value<T>(self) -> ValueState<T> {
        ValueState::new(self.declare(Kind::Value))
    }

    /// Entries per key, ordered by their own keys.
    #[must_use]
    pub fn map<K: EntryKey, V>(self) -> MapState<K, V> {
        MapState::new(self.declare(Kind::Map))
    }

    /// Items per key in the order they were added.
    #[must_use]
    pub fn list<T>(self) -> ListState<T> {
        ListState::new(self.whole("a list"))
    }

    /// Items per key ordered by event time, then by the order they were added.
    #[must_use]
    pub fn event_time_buffer<T>(self) -> EventTimeBuffer<T> {
        EventTimeBuffer::new(self.whole("an event-time buffer"))
    }

    /// A row per key with its versions by event time.
    #[must_use]
    pub fn versioned_table<T>(self) -> VersionedTable<T> {
        VersionedTable::new(self.whole("a versioned table"))
    }

    /// These know how many or which entries they have: some that expire alone would make that wrong.
    fn whole(mut self, what: &str) -> u32 {
        if self.expiry.take().is_some() {
            let name = &self.name;
            self.setup.problems.push(format!(
                "state `{name}`: {what} takes no expiry; remove its items with a timer, or use a map"
            ));
        }
        self.declare(Kind::Map)
    }

    fn declare(self, kind: Kind) -> u32 {
        let Self { setup, name, schema_version, expiry } = self;
        setup.declare(DescribedState { name, kind, scope: Scope::Keyed, schema_version, expiry })
    }
}

/// Declares one broadcast state.
#[derive(Debug)]
pub struct BroadcastStateBuilder<'s> {
    setup: &'s mut Setup,
    name: String,
    schema_version: u16,
}

impl BroadcastStateBuilder<'_> {
    /// Says which version of its type the plugin writes, as [`StateBuilder::schema_version`].
    #[must_use]
    pub fn schema_version(self, version: u16) -> Self {
        Self { schema_version: version, ..self }
    }

    /// One value.
    #[must_use]
    pub fn value<T>(self) -> BroadcastValue<T> {
        BroadcastValue::new(self.declare(Kind::Value))
    }

    /// Entries, ordered by their keys.
    #[must_use]
    pub fn map<K: EntryKey, V>(self) -> BroadcastMap<K, V> {
        BroadcastMap::new(self.declare(Kind::Map))
    }

    fn declare(self, kind: Kind) -> u32 {
        let Self { setup, name, schema_version } = self;
        let scope = Scope::Broadcast;
        setup.declare(DescribedState { name, kind, scope, schema_version, expiry: None })
    }
}

/// Opens a plugin with a configuration (JSON).
pub(crate) fn open<P: Plugin>(config: &str) -> Result<(P, Description)> {
    let config = crate::config::parse(config)?;
    let mut setup = Setup::new();
    let plugin = P::open(config, &mut setup)?;
    Ok((plugin, setup.finish()?))
}

impl Description {
    /// Returns the JSON that the interface's `describe` answers.
    ///
    /// # Panics
    ///
    /// Never: names and numbers always have a JSON form.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("names and numbers have a JSON form")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_is_the_json_of_the_interface() {
        let mut setup = Setup::new();
        assert_eq!(setup.input("orders"), setup.input("orders"));
        let _main = setup.output("main");
        let expiry = Expiry::event_time(Millis(1_000)).refreshed_by_reads();
        let _latest = setup.state("latest").expiry(expiry).value::<u8>();
        let _rows = setup.state("rows").schema_version(2).map::<i64, u8>();
        let _matched = setup.counter("matched");
        let json = setup.finish().unwrap().to_json();
        assert_eq!(
            json,
            concat!(
                r#"{"version":1,"inputs":["orders"],"outputs":["main"],"states":["#,
                r#"{"name":"latest","kind":"value","schema_version":1,"expiry":"#,
                r#"{"after_ms":1000,"domain":"event","refresh":"read_and_write"}},"#,
                r#"{"name":"rows","kind":"map","schema_version":2}],"#,
                r#""metrics":[{"name":"matched","kind":"counter"}]}"#
            )
        );
    }

    #[test]
    fn broadcast_inputs_and_states_are_named_in_the_description() {
        let mut setup = Setup::new();
        let orders = setup.input("orders");
        let rules = setup.broadcast_input("rules");
        assert_eq!(rules, setup.broadcast_input("rules"));
        assert_ne!(rules, orders);
        let _rules = setup.broadcast_state("rules").schema_version(2).map::<u8, u8>();
        let json = setup.finish().unwrap().to_json();
        assert_eq!(
            json,
            concat!(
                r#"{"version":1,"inputs":["orders","rules"],"broadcast":["rules"],"outputs":[],"#,
                r#""states":[{"name":"rules","kind":"map","scope":"broadcast","schema_version":2}],"#,
                r#""metrics":[]}"#
            )
        );
    }

    #[test]
    fn contradictory_declarations_are_refused_all_at_once() {
        let mut setup = Setup::new();
        let _first = setup.state("rows").value::<u8>();
        let _second = setup.state("rows").value::<u8>();
        let _list = setup.state("list").expiry(Expiry::event_time(Millis(5))).list::<u8>();
        let _metrics = (setup.counter("m"), setup.gauge("m"));
        let message = setup.finish().unwrap_err().message().to_owned();
        for part in ["`rows` is declared twice", "a list takes no expiry", "`m` is declared with"] {
            assert!(message.contains(part), "{message}");
        }
    }
}
