//! The open sessions of a key.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::Window;
use crate::{context::Context, error::Result, state::MapState};

/// The open sessions of a key, each with something of the plugin's own. They are disjoint: what
/// touches is one session.
///
/// State: a row per session. Timers: none (the plugin registers those of the ends it is told).
/// Cost: a record reads the sessions it touches and at most one more, however many are open.
///
/// ```
/// use dovetail_sdk::{
///     Context, Harness, Output, Plugin, Record, Result, Setup,
///     join::{Sessions, Window},
/// };
///
/// /// Tells the session of every record, and how many records it has: a gap of 10 ms.
/// struct Visits { main: Output, sessions: Sessions<u32> }
///
/// # #[derive(serde::Deserialize)] struct Config {}
/// impl Plugin for Visits {
///     type Config = Config;
///
///     fn open(_: Config, setup: &mut Setup) -> Result<Self> {
///         setup.input("clicks");
///         let sessions = Sessions::new(setup.state("sessions").map());
///         Ok(Self { main: setup.output("main"), sessions })
///     }
///
///     fn process_element(&mut self, record: Record<'_>, context: &mut Context<'_>) -> Result {
///         let start = record.time.unwrap_or(0);
///         let absorbed = self.sessions.absorb(context, Window { start, end: start + 10 })?;
///         let count = 1 + absorbed.sessions.iter().map(|(_, count)| count).sum::<u32>();
///         self.sessions.put(context, absorbed.merged, &count)?;
///         let Window { start, end } = absorbed.merged;
///         self.main.emit(context, format!("{start}..{end}: {count}"));
///         Ok(())
///     }
/// }
///
/// let mut harness = Harness::<Visits>::new("{}")?;
/// for time in [0, 21, 10] {
///     harness.record("clicks").key("k").time(time).value("");
/// }
/// assert_eq!(harness.values("main"), ["0..10: 1", "21..31: 1", "0..20: 2"]);
/// # Ok::<(), dovetail_sdk::Error>(())
/// ```
#[derive(Debug)]
pub struct Sessions<P> {
    by_end: MapState<i64, Open<P>>,
}

impl<P> Clone for Sessions<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for Sessions<P> {}

/// A session as it is kept.
#[derive(Debug, Serialize, Deserialize)]
pub struct Open<P> {
    start: i64,
    payload: P,
}

/// What a window has become one with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Absorbed<P> {
    /// All of it.
    pub merged: Window,
    /// The sessions it was until now; they are kept no more.
    pub sessions: Vec<(Window, P)>,
}

impl<P: Serialize + DeserializeOwned> Sessions<P> {
    /// Makes them of a state.
    #[must_use]
    pub fn new(by_end: MapState<i64, Open<P>>) -> Self {
        Self { by_end }
    }

    /// Merges a window with the sessions it touches, and takes those out; [`Sessions::put`] what
    /// has become of them.
    ///
    /// # Errors
    ///
    /// When what is stored is of another type.
    pub fn absorb(&self, context: &mut Context<'_>, window: Window) -> Result<Absorbed<P>> {
        let mut absorbed = Absorbed { merged: window, sessions: Vec::new() };
        let mut from = window.start;
        loop {
            // Disjoint and by their ends: those that touch come first.
            let (page, has_more) = self.by_end.page(context, from.., 2)?;
            for (end, open) in page {
                if open.start > window.end {
                    return Ok(absorbed);
                }
                self.by_end.remove(context, &end);
                absorbed.merged.start = absorbed.merged.start.min(open.start);
                absorbed.merged.end = absorbed.merged.end.max(end);
                absorbed.sessions.push((Window { start: open.start, end }, open.payload));
                from = end;
            }
            if !has_more {
                return Ok(absorbed);
            }
        }
    }

    /// Returns the session that ends at a time.
    ///
    /// # Errors
    ///
    /// When what is stored is of another type.
    pub fn ending(&self, context: &mut Context<'_>, end: i64) -> Result<Option<(Window, P)>> {
        let open = self.by_end.get(context, &end)?;
        Ok(open.map(|open| (Window { start: open.start, end }, open.payload)))
    }

    /// Writes a session.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn put(&self, context: &mut Context<'_>, window: Window, payload: &P) -> Result
    where
        P: Clone,
    {
        let open = Open { start: window.start, payload: payload.clone() };
        self.by_end.put(context, &window.end, &open)
    }

    /// Forgets a session.
    pub fn remove(&self, context: &mut Context<'_>, window: Window) {
        self.by_end.remove(context, &window.end);
    }
}
