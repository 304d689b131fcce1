//! The lane as a whole, over the in-memory ports.
