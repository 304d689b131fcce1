//! Sums over the last seconds, for rates and shares.
//!
//! Knows no clock: times are handed in. Keeps one bucket per second, so memory is bounded.

use std::collections::VecDeque;

/// A sum over a sliding window of whole seconds.
#[derive(Debug, Clone)]
pub struct Window {
    seconds: i64,
    /// (second, sum), ascending.
    buckets: VecDeque<(i64, u64)>,
    first: Option<i64>,
}

impl Window {
    /// Returns an empty window over that many seconds.
    #[must_use]
    pub fn new(seconds: i64) -> Self {
        Self { seconds: seconds.max(1), buckets: VecDeque::new(), first: None }
    }

    /// Adds at a time in ms. A time before the newest one counts as the newest.
    pub fn add(&mut self, now: i64, count: u64) {
        let second = now.div_euclid(1000);
        self.first.get_or_insert(second);
        match self.buckets.back_mut() {
            Some((newest, sum)) if *newest >= second => *sum += count,
            _ => self.buckets.push_back((second, count)),
        }
        let newest = self.buckets.back().map_or(second, |(newest, _)| *newest);
        while self.buckets.front().is_some_and(|(oldest, _)| *oldest <= newest - self.seconds) {
            self.buckets.pop_front();
        }
    }

    /// Returns the sum over the window that ends at a time in ms.
    #[must_use]
    pub fn sum(&self, now: i64) -> u64 {
        let from = now.div_euclid(1000) - self.seconds;
        self.buckets.iter().filter(|(second, _)| *second > from).map(|(_, sum)| sum).sum()
    }

    /// Returns the mean per second over the window, or since the first addition if that is later.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    pub fn per_second(&self, now: i64) -> f64 {
        let Some(first) = self.first else { return 0.0 };
        let age = (now.div_euclid(1000) - first + 1).clamp(1, self.seconds);
        self.sum(now) as f64 / age as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_older_than_the_window_does_not_count() {
        let mut window = Window::new(10);
        window.add(0, 5);
        window.add(9_999, 7);
        assert_eq!(window.sum(9_999), 12);
        assert_eq!(window.sum(10_000), 7);
        assert_eq!(window.sum(60_000), 0);
    }

    #[test]
    fn a_rate_is_taken_over_the_time_that_has_passed() {
        let mut window = Window::new(10);
        window.add(1_000, 30);
        assert!((window.per_second(3_500) - 10.0).abs() < 1e-9);
        assert!((window.per_second(10_900) - 3.0).abs() < 1e-9);
    }

    #[test]
    fn a_clock_that_goes_back_loses_nothing() {
        let mut window = Window::new(10);
        window.add(5_000, 1);
        window.add(4_000, 1);
        assert_eq!(window.sum(5_000), 2);
    }
}
