//! What happened, as a hash and, where it is asked for, as lines.
//!
//! Invariant: two runs of one seed have the same hash; no address, hash map order or wall clock
//! may reach it.

/// The trace of one run.
#[derive(Debug, Default)]
pub struct Trace {
    hash: u64,
    events: u64,
    lines: Option<Vec<String>>,
}

impl Trace {
    /// Returns an empty trace that keeps its lines if `keeps` says so.
    #[must_use]
    pub fn new(keeps: bool) -> Self {
        Self { hash: 0xcbf2_9ce4_8422_2325, events: 0, lines: keeps.then(Vec::new) }
    }

    /// Adds what happened at a virtual time (ms).
    pub fn note(&mut self, at: i64, text: &str) {
        self.events += 1;
        for byte in at.to_le_bytes().iter().chain(text.as_bytes()) {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{at:>8} {text}"));
        }
    }

    /// Returns the hash of everything noted.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Returns how much was noted.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Takes the lines, where they were kept.
    pub fn take_lines(&mut self) -> Vec<String> {
        self.lines.take().unwrap_or_default()
    }
}
