//! One binary for all integration tests that need no broker, so that the host is linked once.
//!
//! `tidy` and `dependency_rules` look at the code itself; their messages say what to do.
//!
//! Modules are marked `cfg(test)` so that clippy knows their helpers as test code too.

#[cfg(test)]
mod dependency_rules;
#[cfg(test)]
mod documented;
#[cfg(test)]
mod examples;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod replay;
#[cfg(test)]
mod sandbox;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod shuffled;
#[cfg(test)]
mod tidy;
