//! The configuration in core's terms.

use dovetail_core::{
    identity::BROADCAST,
    options::{CallLimits, InputOptions, LaneOptions, OutputOptions, SkewReference, WatermarkRule},
    record::{Record, Source},
};
use dovetail_runtime::setup::Decode;

use super::roles::Fit;
use crate::config::model::{Config, InputConfig, InputFrom, PluginLimits};

/// What the log says about an input and its topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InputFacts {
    /// How many partitions it has.
    pub partitions: u16,
    /// What "too far ahead" is measured against.
    pub skew_reference: SkewReference,
}

/// Returns what decides about every lane.
#[must_use]
pub fn lane_options(
    config: &Config,
    facts: &[InputFacts],
    fit: &Fit,
    outputs: &[OutputOptions],
) -> LaneOptions {
    let inputs = config.inputs.iter().zip(facts);
    LaneOptions {
        pipeline: config.pipeline.clone(),
        inputs: inputs.map(|(input, facts)| input_options(input, *facts)).collect(),
        roles: fit.roles.clone(),
        outputs: fit.lane_outputs(outputs),
        late_output: fit.late_output,
        wait_for_input: config.wait_for_input,
        when_all_idle: config.when_all_idle,
        commit: config.commit,
        dead_letter_rate: config.dead_letters.max_rate,
        limits: call_limits(&config.plugin.limits),
    }
}

fn call_limits(limits: &PluginLimits) -> CallLimits {
    CallLimits {
        outputs_max: limits.outputs,
        output_bytes_max: limits.output_bytes,
        scan_entries_max: limits.scan_entries,
        scan_bytes_max: limits.scan_bytes,
        state_row_bytes_max: limits.state_row_bytes,
        state_bytes_max: limits.state_bytes,
        timers_max: limits.timers,
        firings_per_timer_max: limits.firings_per_timer,
    }
}

fn input_options(input: &InputConfig, facts: InputFacts) -> InputOptions {
    InputOptions {
        name: input.name.clone(),
        topic: place(input),
        watermark: input.time.map_or(WatermarkRule::None, |time| {
            WatermarkRule::OutOfOrderness(time.out_of_orderness)
        }),
        idle_after: input.time.and_then(|time| time.idle_after),
        max_future_skew: input.time.map(|time| time.max_future_skew),
        skew_reference: facts.skew_reference,
        late: input.late,
        null_key: input.null_key,
        is_broadcast: input.is_broadcast,
        bootstrap: input.bootstrap,
    }
}

/// Returns what an input reads, for messages, dead letters and the identity.
#[must_use]
pub fn place(input: &InputConfig) -> String {
    match &input.from {
        InputFrom::Topic(topic) => topic.clone(),
        InputFrom::Files(files) => {
            let names = files.iter().map(|file| {
                file.file_name()
                    .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
            });
            names.collect::<Vec<_>>().join(",")
        }
    }
}

/// Returns how an input's keys are compared, as the identity says it.
#[must_use]
pub fn key_type(input: &InputConfig) -> String {
    if input.is_broadcast { BROADCAST } else { input.format.key.key_type.name() }.to_owned()
}

/// Returns a decoder of all inputs.
#[must_use]
pub fn decoder(config: &Config) -> Box<dyn Decode> {
    let inputs = config.inputs.iter();
    let decoders: Vec<dovetail_codec::Decoder> =
        inputs.map(|input| dovetail_codec::Decoder::new(input.format.clone())).collect();
    Box::new(move |source: Source, record: Record| {
        decoders[usize::from(source.input.0)].decode(record)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_are_not_said_are_those_of_the_core() {
        assert_eq!(call_limits(&PluginLimits::default()), CallLimits::default());
    }
}
