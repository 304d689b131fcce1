//! The codes of the reasons why a pipeline is not ready, as `/readyz` gives them. Durable: alerts
//! hold them.

macro_rules! codes {
    ($($variant:ident $name:literal $meaning:literal;)*) => {
        /// A reason why a pipeline is not ready.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum ReasonCode {
            $(#[doc = $meaning] $variant,)*
        }

        impl ReasonCode {
            /// Every code, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Returns the stable name.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Returns what it means.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)* }
            }
        }
    };
}

codes! {
    NotAcquired "not_acquired" "A lane is starting, recovering, or looking for whoever took it over.";
    NotRunning "not_running" "A lane is ending or has ended.";
    LogUnanswered "log_unanswered" "The log has told nothing of a source for 10 s: the broker is away.";
    Bootstrapping "bootstrapping" "Records wait for an input that is loaded first (`bootstrap`).";
    EpochOpen "epoch_open" "A lane has not committed for 10 × `commit.every`, or hangs in a commit or a plugin call.";
    FailedCalls "failed_calls" "More than 1 % of the plugin calls of the last minute have failed.";
    Copartition "copartition" "A key was seen under two partition numbers: such records never meet.";
    CheckpointStore "checkpoint_store" "Three checkpoints in a row have failed: the store takes none, or the lane cannot write its state to files.";
    Draining "draining" "The pipeline is stopping.";
    Fatal "fatal" "The pipeline stops because of an error, which is named.";
}
