//! Why a command ends, and with which exit code.

use std::fmt;

use crate::config::report::{Problem, Problems};

/// The exit codes of the binary, as `--help` documents them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// A check or test failed.
    Check,
    /// The command was used wrongly, or what it needs is not there.
    Usage,
    /// A rule about data or ownership stopped the pipeline.
    Rule,
    /// A defect, or a machine that does not do its part.
    Internal,
    /// The configuration must change.
    Configuration,
}

impl Exit {
    /// Returns the code.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Check => 1,
            Self::Usage => 2,
            Self::Rule => 3,
            Self::Internal => 70,
            Self::Configuration => 78,
        }
    }
}

/// A command that did not end well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Its exit code.
    pub exit: Exit,
    /// What happened and what to do, for a person.
    pub message: String,
    /// The same one by one, where it is a pipeline file that is wrong.
    pub problems: Vec<Problem>,
}

impl Failure {
    /// Returns a failure with its exit code.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), problems: Vec::new() }
    }

    /// A check or test failed.
    pub fn check(message: impl Into<String>) -> Self {
        Self::new(Exit::Check, message)
    }

    /// The command was used wrongly, or what it needs is not there.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// A defect, or a machine that does not do its part.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Exit::Internal, message)
    }

    /// The configuration must change.
    pub fn configuration(message: impl Into<String>) -> Self {
        Self::new(Exit::Configuration, message)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl From<crate::config::LoadError> for Failure {
    fn from(error: crate::config::LoadError) -> Self {
        match error {
            crate::config::LoadError::Invalid(problems) => problems.into(),
            unreadable @ crate::config::LoadError::Unreadable { .. } => {
                Self::usage(unreadable.to_string())
            }
        }
    }
}

impl From<Problems> for Failure {
    fn from(problems: Problems) -> Self {
        let message = problems.to_string();
        Self { problems: problems.problems, ..Self::configuration(message) }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        let is_missing = |cause: &(dyn std::error::Error + 'static)| {
            let file = cause.downcast_ref::<std::io::Error>();
            let pipeline = cause.downcast_ref::<crate::config::LoadError>();
            file.is_some_and(|error| error.kind() == std::io::ErrorKind::NotFound)
                || matches!(pipeline, Some(crate::config::LoadError::Unreadable { .. }))
        };
        let failure = error.chain().find_map(|cause| cause.downcast_ref::<Self>());
        let exit = match failure {
            Some(failure) => failure.exit,
            None if error.chain().any(is_missing) => Exit::Usage,
            None => Exit::Configuration,
        };
        Self::new(exit, format!("{error:#}"))
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::internal(error.to_string())
    }
}
