//! The pipeline file: read, layered, checked.
//!
//! Defaults < file < `DOVETAIL__…` variables < `--set`. Knows neither plugins nor brokers: what
//! only they can answer is checked in wiring, which reports through [`Loaded::problems`] so that
//! it, too, shows file, line and column. Keeps: all problems are reported at once (a syntax error
//! alone stands alone); secrets are in [`model::Secret`] and never shown.

mod check;
mod layers;
pub mod model;
pub mod node;
mod print;
mod read;
mod reader;
pub mod report;
mod scalars;
mod substitute;
pub mod units;
pub mod yaml;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

pub use self::{model::Config, read::ADMIN_LISTEN_DEFAULT};
use self::{
    node::Place,
    report::{Problem, Problems},
};

/// What surrounds a file: read once at the edge, given as data.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// Environment variables.
    pub variables: Vec<(String, String)>,
    /// `--set` options in order.
    pub options: Vec<String>,
}

impl Environment {
    /// Returns the process's own variables and the given options.
    #[must_use]
    pub fn of_process(options: &[String]) -> Self {
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Self { variables, options: options.to_vec() }
    }

    fn lookup(&self, name: &str) -> Option<String> {
        self.variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    }
}

/// A configuration and what is needed to talk about it.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// What may be wrong.
    pub warnings: Vec<Problem>,
    /// The file as the user named it.
    pub file: String,
    text: String,
    effective: Vec<reader::Effective>,
    places: BTreeMap<String, Place>,
}

/// Why a file gave no configuration.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LoadError {
    /// It cannot be read.
    #[error("{path} cannot be read: {reason}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: String,
    },
    /// It is wrong.
    #[error(transparent)]
    Invalid(#[from] Problems),
}

impl Loaded {
    /// Returns every value in force with its origin, secrets masked.
    #[must_use]
    pub fn print(&self) -> String {
        print::print(&self.effective, &self.file)
    }

    /// Returns a problem that stands where a key stands, for checks that need plugin or broker.
    #[must_use]
    pub fn problem(
        &self,
        path: &str,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Problem {
        Problem::new(path, reader::place_near(&self.places, path), message.into()).with_help(help)
    }

    /// Returns whether a key was given.
    #[must_use]
    pub fn has(&self, path: &str) -> bool {
        self.places.get(path).is_some_and(|place| place.origin != node::Origin::Default)
    }

    /// Returns problems as one error that shows the file's lines.
    #[must_use]
    pub fn problems(&self, mut problems: Vec<Problem>) -> Problems {
        sort(&mut problems);
        Problems { file: self.file.clone(), text: self.text.clone(), problems }
    }

    /// Returns the warnings as text.
    #[must_use]
    pub fn render_warnings(&self) -> Vec<String> {
        self.warnings
            .iter()
            .map(|warning| report::render(warning, "warning", &self.file, &self.text))
            .collect()
    }
}

/// Reads a pipeline file.
///
/// # Errors
///
/// When it cannot be read or is wrong.
pub fn load(path: &Path, environment: &Environment) -> Result<Loaded, LoadError> {
    let (loaded, problems) = examine(path, environment)?;
    if problems.is_empty() { Ok(loaded) } else { Err(loaded.problems(problems).into()) }
}

/// Reads a pipeline file as far as it can be read, with everything that is wrong with it, so that
/// what only the plugin can say is reported together with it. Where there are problems, what is
/// read holds placeholders and must not be run.
///
/// # Errors
///
/// When it cannot be read, or is no YAML.
pub fn examine(
    path: &Path,
    environment: &Environment,
) -> Result<(Loaded, Vec<Problem>), LoadError> {
    let unreadable = |error: std::io::Error| LoadError::Unreadable {
        path: path.to_owned(),
        reason: error.to_string(),
    };
    let text = crate::text_file::read(path).map_err(unreadable)?;
    // Absolute, because a log remembers files by their paths, wherever a start is made from.
    let absolute = std::path::absolute(path).map_err(unreadable)?;
    let base = absolute.parent().unwrap_or(Path::new("/"));
    Ok(examine_text(&path.display().to_string(), text, base, environment)?)
}

/// Reads a pipeline from text; relative paths start at `base`.
///
/// # Errors
///
/// Everything that is wrong with it.
pub fn load_text(
    file: &str,
    text: String,
    base: &Path,
    environment: &Environment,
) -> Result<Loaded, Problems> {
    let (loaded, problems) = examine_text(file, text, base, environment)?;
    if problems.is_empty() { Ok(loaded) } else { Err(loaded.problems(problems)) }
}

fn examine_text(
    file: &str,
    text: String,
    base: &Path,
    environment: &Environment,
) -> Result<(Loaded, Vec<Problem>), Problems> {
    let file = file.to_owned();
    let mut tree = match yaml::parse(&text) {
        Ok(tree) => tree,
        Err(problem) => {
            return Err(Problems { file, text, problems: vec![problem] });
        }
    };
    let lookup = |name: &str| environment.lookup(name);
    let mut reader = reader::Reader::default();
    layers::overlay_variables(&mut tree, &environment.variables, &mut reader.problems);
    layers::overlay_options(&mut tree, &environment.options, &mut reader.problems);
    // Last, so that a value means the same wherever it is written, and what is overridden need not
    // be set.
    substitute::substitute(&mut tree, &lookup, &mut reader.problems);
    let around = read::Surroundings { base, lookup: &lookup };
    let config = read::read(&mut reader, &tree, &around);
    let name = Path::new(&file).file_name().unwrap_or_default();
    check::check(&mut reader, &config, &base.join(name));
    let reader::Reader { problems, warnings, effective, places } = reader;
    Ok((Loaded { config, warnings, file, text, effective, places }, problems))
}

fn sort(problems: &mut Vec<Problem>) {
    problems.sort_by(|one, other| {
        (one.place.line, one.place.column).cmp(&(other.place.line, other.place.column))
    });
    problems.dedup();
}

fn join(parent: &str, key: &str) -> String {
    if parent.is_empty() { key.to_owned() } else { format!("{parent}.{key}") }
}
