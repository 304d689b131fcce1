//! Loads, validates, compiles, limits and calls WebAssembly components.
