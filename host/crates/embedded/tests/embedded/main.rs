//! The embedded log as its users see it: lanes, commits, crashes, files and bytes on disk.
//!
//! Goal: the contract of `core`'s log port holds on a directory, through a kill at any point.
//! Method: real files in temporary directories; crashes are cut files and killed processes.

mod commits;
mod files;
mod golden;
mod kill;
mod port;
mod rig;
