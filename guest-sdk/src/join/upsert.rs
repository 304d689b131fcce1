//! Keys of results that are rows of a table with more than one per join key.

use crate::{context::Context, json::write_string};

/// Returns the key of a result that is one of several of its join key: a JSON list of that key and
/// what tells the result from the others, itself JSON. A compacted topic of such results keeps the
/// last of each.
///
/// State: none. Timers: none. Cost: one call for the key.
///
/// ```
/// use dovetail_sdk::{
///     Context, Harness, Message, Output, Plugin, Record, Result, Setup, join::upsert_key,
/// };
///
/// struct Lines { main: Output }
///
/// # #[derive(serde::Deserialize)] struct Config {}
/// impl Plugin for Lines {
///     type Config = Config;
///
///     fn open(_: Config, setup: &mut Setup) -> Result<Self> {
///         setup.input("lines");
///         Ok(Self { main: setup.output("main") })
///     }
///
///     fn process_element(&mut self, record: Record<'_>, context: &mut Context<'_>) -> Result {
///         let key = upsert_key(context, Some("7"));
///         self.main.send(context, Message::new(record.value.unwrap_or_default()).key(&key));
///         Ok(())
///     }
/// }
///
/// let mut harness = Harness::<Lines>::new("{}")?;
/// harness.record("lines").key("o\"1").value("{}");
/// assert_eq!(harness.take("main")[0].key.as_deref(), Some(r#"["o\"1",7]"#));
/// # Ok::<(), dovetail_sdk::Error>(())
/// ```
#[must_use]
pub fn upsert_key(context: &Context<'_>, part: Option<&str>) -> Vec<u8> {
    let own = context.key().unwrap_or_default();
    let mut key = vec![b'['];
    write_string(&String::from_utf8_lossy(&own), &mut key);
    key.push(b',');
    key.extend_from_slice(part.unwrap_or("null").as_bytes());
    key.push(b']');
    key
}
