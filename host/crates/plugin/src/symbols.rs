//! Where in its author's files a plugin was: the debug sections of its main module.
//!
//! Wasmtime can look lines up itself, but parses the debug sections anew for each frame of each
//! trap: milliseconds that a flood of bad records would pay. Here they are parsed once per failure.

use std::collections::BTreeMap;

use addr2line::gimli::{Dwarf, EndianSlice, LittleEndian, SectionId};
use wasmparser::{Parser, Payload};
use wasmtime::FrameInfo;

/// The debug sections of a component's first module that has any.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    sections: BTreeMap<String, Vec<u8>>,
    /// Addresses in the debug sections count from here.
    code_start: usize,
}

/// One function on the guest's stack.
#[derive(Debug)]
pub(crate) struct Place {
    /// Its name as the author wrote it.
    pub(crate) function: String,
    /// File and line.
    pub(crate) line: Option<(String, u32)>,
}

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

impl Symbols {
    /// Returns the debug sections of a component that was parsed before; none where it has none.
    pub(crate) fn of(component: &[u8]) -> Self {
        let mut symbols = Self::default();
        for payload in Parser::new(0).parse_all(component).filter_map(Result::ok) {
            match payload {
                Payload::ModuleSection { .. } if symbols.sections.contains_key(".debug_line") => {
                    break;
                }
                Payload::ModuleSection { .. } => symbols = Self::default(),
                Payload::CodeSectionStart { range, .. } => symbols.code_start = range.start,
                Payload::CustomSection(section) if section.name().starts_with(".debug_") => {
                    symbols.sections.insert(section.name().to_owned(), section.data().to_vec());
                }
                _ => {}
            }
        }
        symbols
    }

    /// Returns the functions of the frames, innermost first, inlined ones included.
    pub(crate) fn places(&self, frames: &[FrameInfo]) -> Vec<Place> {
        let lines = self.lines();
        let mut places = Vec::new();
        for frame in frames {
            let before = places.len();
            if let Some((lines, offset)) = lines.as_ref().zip(frame.module_offset()) {
                let address = offset.saturating_sub(self.code_start);
                places.extend(places_at(lines, address as u64));
            }
            if let Some(name) = frame.func_name().filter(|_| places.len() == before) {
                places.push(Place { function: demangle(name), line: None });
            }
        }
        places
    }

    fn lines(&self) -> Option<addr2line::Context<Bytes<'_>>> {
        if self.sections.is_empty() {
            return None;
        }
        let section = |id: SectionId| -> Result<Bytes<'_>, addr2line::gimli::Error> {
            let bytes = self.sections.get(id.name()).map_or(&[][..], Vec::as_slice);
            Ok(EndianSlice::new(bytes, LittleEndian))
        };
        addr2line::Context::from_dwarf(Dwarf::load(section).ok()?).ok()
    }
}

/// Returns the functions at an address; none where the debug sections say nothing of it.
fn places_at(lines: &addr2line::Context<Bytes<'_>>, address: u64) -> Vec<Place> {
    let mut places = Vec::new();
    let Ok(mut frames) = lines.find_frames(address).skip_all_loads() else { return places };
    while let Ok(Some(frame)) = frames.next() {
        let name = frame.function.as_ref().and_then(|function| function.raw_name().ok());
        let Some(name) = name else { continue };
        let line =
            frame.location.and_then(|location| Some((location.file?.to_owned(), location.line?)));
        places.push(Place { function: demangle(&name), line });
    }
    places
}

/// Returns a function's name without the compiler's additions.
fn demangle(name: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(name))
}
