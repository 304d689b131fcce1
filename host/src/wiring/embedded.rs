//! The embedded log as the pipeline's log: files and topics of a directory.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, BufRead as _, BufReader},
    path::{Path, PathBuf},
    sync::Arc,
};

use dovetail_core::{
    epoch::LaneId,
    log::Log,
    options::OutputOptions,
    record::{Partition, Record, Source},
};
use dovetail_embedded::{
    EmbeddedCluster, EmbeddedError, EmbeddedLog, LaneSpec, OutputSpec, Place, RECORD_BYTES_MAX,
    SourceSpec, Start,
};

use super::{
    backend::{Backend, Ground, SurveyError},
    lanes::{Beginning, BeginningReader},
    options::InputFacts,
    roles::Fit,
    sample::Sampled,
};
use crate::{
    config::{
        Config, Loaded,
        model::{self, EmbeddedConfig, InputConfig, InputFrom},
        report::Problem,
    },
    failure::Failure,
};

/// A directory as one pipeline uses it.
#[derive(Debug)]
pub struct EmbeddedBackend {
    config: Config,
    dir: PathBuf,
    sync: bool,
    /// Open as soon as the directory exists: looking must not make it.
    cluster: Option<Arc<EmbeddedCluster>>,
}

impl EmbeddedBackend {
    /// Opens the directory where there is one.
    ///
    /// # Errors
    ///
    /// When another process has it, or it is damaged.
    pub fn open(config: &Config, embedded: &EmbeddedConfig) -> Result<Self, Failure> {
        let (dir, sync) = (embedded.dir.clone(), embedded.sync);
        let mut backend = Self { config: config.clone(), dir, sync, cluster: None };
        if backend.dir.exists() {
            backend.cluster()?;
        }
        Ok(backend)
    }

    fn cluster(&mut self) -> Result<Arc<EmbeddedCluster>, Failure> {
        if let Some(cluster) = &self.cluster {
            return Ok(Arc::clone(cluster));
        }
        let cluster =
            EmbeddedCluster::open(&self.dir, self.sync).map_err(|error| failure(&error))?;
        self.cluster = Some(Arc::clone(&cluster));
        Ok(cluster)
    }

    fn partitions(&self, input: &InputConfig) -> Option<u16> {
        match &input.from {
            InputFrom::Topic(topic) => self.cluster.as_ref()?.partitions(topic),
            InputFrom::Files(files) => u16::try_from(files.len()).ok(),
        }
    }

    fn problems(&self, loaded: &Loaded) -> Vec<Problem> {
        let mut problems = Vec::new();
        for input in &loaded.config.inputs {
            match &input.from {
                InputFrom::Topic(topic) if self.partitions(input).is_none() => {
                    problems.push(loaded.problem(
                        &format!("inputs.{}.topic", input.name),
                        format!("there is no topic `{topic}` in {}", self.dir.display()),
                        "another pipeline's output makes it; to read a file, say `file:`",
                    ));
                }
                InputFrom::Topic(_) => {}
                InputFrom::Files(files) => {
                    let unreadable = files.iter().filter_map(|file| {
                        let error = open(file).err()?;
                        Some(loaded.problem(
                            &format!("inputs.{}.file", input.name),
                            format!("{} cannot be read: {error}", file.display()),
                            "relative paths start where the pipeline file lies",
                        ))
                    });
                    problems.extend(unreadable);
                }
            }
        }
        problems.extend(self.partition_problem(loaded));
        problems
    }

    fn partition_problem(&self, loaded: &Loaded) -> Option<Problem> {
        let keyed = loaded.config.inputs.iter().filter(|input| !input.is_broadcast);
        let counts: Vec<(&InputConfig, u16)> =
            keyed.filter_map(|input| Some((input, self.partitions(input)?))).collect();
        let (first, first_count) = counts.first()?;
        let (other, other_count) = counts.iter().find(|(_, count)| count != first_count)?;
        Some(loaded.problem(
            &format!("inputs.{}", other.name),
            format!(
                "{} has {first_count} partitions, {} {other_count}; records of one key would lie \
                 in different lanes",
                first.name, other.name
            ),
            "give every input as many files or partitions, split by the same key",
        ))
    }
}

impl Backend for EmbeddedBackend {
    fn survey(&mut self, loaded: &Loaded) -> Result<Ground, SurveyError> {
        let problems = self.problems(loaded);
        if !problems.is_empty() {
            return Err(SurveyError::Problems(problems));
        }
        let config = &loaded.config;
        let accepts = |name: &str, topic: &str| OutputOptions {
            name: name.to_owned(),
            topic: topic.to_owned(),
            max_record_bytes: RECORD_BYTES_MAX,
            requires_key: false,
        };
        let facts = |input: &InputConfig| InputFacts {
            partitions: self.partitions(input).unwrap_or(1),
            ..InputFacts::default()
        };
        let mut keyed = config.inputs.iter().filter(|input| !input.is_broadcast);
        let partitions = keyed.next().and_then(|input| self.partitions(input));
        Ok(Ground {
            cluster_id: self
                .cluster
                .as_ref()
                .map_or_else(|| "new".to_owned(), |cluster| cluster.cluster_id().to_owned()),
            partitions: partitions.unwrap_or(1),
            inputs: config.inputs.iter().map(facts).collect(),
            outputs: config
                .outputs
                .iter()
                .map(|output| accepts(&output.name, &output.topic))
                .collect(),
            warnings: Vec::new(),
        })
    }

    fn beginning(&mut self) -> Result<Beginning, Failure> {
        let journal = format!("{}.journal", self.config.pipeline);
        let Some(cluster) = &self.cluster else { return Ok(Beginning::Nothing) };
        if cluster.partitions(&journal).is_none() {
            return Ok(Beginning::Nothing);
        }
        let records = cluster.read_topic(&journal).map_err(|error| failure(&error))?;
        let mut genesis = BeginningReader::default();
        for (_, record) in records.iter().filter(|(partition, _)| partition.0 == 0) {
            let chunk = record.value.clone().unwrap_or_default();
            if genesis.take(record.offset, &chunk).is_break() {
                break;
            }
        }
        genesis.finish().map_err(|error| super::log_failure(&error))
    }

    fn prepare(&mut self, loaded: &Loaded, ground: &Ground, _lanes: u16) -> Result<(), Failure> {
        let cluster = self.cluster()?;
        let config = &loaded.config;
        let topics = config.outputs.iter().map(|output| &output.topic);
        for topic in topics.chain([&config.dead_letters.topic]) {
            cluster.ensure_topic(topic, ground.partitions).map_err(|error| failure(&error))?;
        }
        let follows = config.outputs.iter().map(|output| &output.follow);
        for file in follows.chain([&config.dead_letters.follow]).flatten() {
            if let Some(folder) = file.parent() {
                std::fs::create_dir_all(folder).map_err(|error| {
                    let folder = folder.display();
                    Failure::configuration(format!(
                        "the folder {folder} of a followed file cannot be made: {error}"
                    ))
                })?;
            }
        }
        Ok(())
    }

    fn lane_log(
        &mut self,
        lane: LaneId,
        lanes: u16,
        sources: &[Source],
        fit: &Fit,
    ) -> Result<Box<dyn Log>, Failure> {
        let cluster = self.cluster()?;
        let config = &self.config;
        let spec = LaneSpec {
            pipeline: config.pipeline.clone(),
            lane,
            lanes,
            sources: sources.iter().map(|source| source_spec(config, *source)).collect(),
            outputs: fit
                .outputs
                .iter()
                .map(|at| &config.outputs[*at])
                .map(|output| OutputSpec {
                    topic: output.topic.clone(),
                    follow: output.follow.clone(),
                })
                .collect(),
            dead_letters: OutputSpec {
                topic: config.dead_letters.topic.clone(),
                follow: config.dead_letters.follow.clone(),
            },
        };
        let log = EmbeddedLog::new(&cluster, spec).map_err(|error| failure(&error))?;
        Ok(Box::new(log))
    }

    fn sample(&mut self, input: &InputConfig, count: u32) -> Result<Sampled, Failure> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        match &input.from {
            InputFrom::Topic(topic) => {
                let cluster = self.cluster()?;
                let all = cluster.read_topic(topic).map_err(|error| failure(&error))?;
                let partitions = cluster.partitions(topic).unwrap_or(1);
                let records = newest_of_each(all, count.div_ceil(usize::from(partitions)));
                Ok(Sampled { records, hashed_over: Some(partitions) })
            }
            InputFrom::Files(files) => {
                let mut records = Vec::new();
                for (partition, file) in (0..).map(Partition).zip(files) {
                    let newest = newest_lines(file, count.div_ceil(files.len()))?;
                    records.extend(newest.into_iter().map(|record| (partition, record)));
                }
                Ok(Sampled { records, hashed_over: None })
            }
        }
    }
}

/// Opens a regular file: opening a pipe would wait for its writer.
fn open(file: &Path) -> io::Result<File> {
    if !std::fs::metadata(file)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    File::open(file)
}

/// Returns the last `count` records of each partition; `all` is ordered by partition.
fn newest_of_each(all: Vec<(Partition, Record)>, count: usize) -> Vec<(Partition, Record)> {
    let of_each = all.chunk_by(|one, other| one.0 == other.0);
    of_each.flat_map(|records| &records[records.len().saturating_sub(count)..]).cloned().collect()
}

/// Reads the last lines of a file as the embedded log reads them: a line is a record's value, its
/// first byte the offset.
fn newest_lines(file: &Path, count: usize) -> Result<Vec<Record>, Failure> {
    let mut newest = VecDeque::new();
    let mut offset = 0_i64;
    for line in BufReader::new(open(file)?).split(b'\n') {
        let mut line = line?;
        let length = i64::try_from(line.len()).unwrap_or(i64::MAX);
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        if !line.is_empty() {
            newest.push_back(Record { offset, value: Some(line.into()), ..Record::default() });
        }
        if newest.len() > count {
            newest.pop_front();
        }
        offset = offset.saturating_add(length).saturating_add(1);
    }
    Ok(newest.into())
}

fn source_spec(config: &Config, source: Source) -> SourceSpec {
    let input = &config.inputs[usize::from(source.input.0)];
    let place = match &input.from {
        InputFrom::Topic(topic) => Place::Topic(topic.clone()),
        InputFrom::Files(files) => Place::File(files[usize::from(source.partition.0)].clone()),
    };
    let start = match input.start {
        model::Start::Earliest => Start::Earliest,
        model::Start::Latest => Start::Latest,
    };
    let is_broadcast = input.is_broadcast;
    SourceSpec { place, partition: source.partition, start, is_broadcast }
}

fn failure(error: &EmbeddedError) -> Failure {
    match error {
        EmbeddedError::Locked { .. } | EmbeddedError::Config(_) => {
            Failure::configuration(error.to_string())
        }
        EmbeddedError::Io { .. } | EmbeddedError::Corrupt { .. } | EmbeddedError::Broken(_) => {
            Failure::internal(error.to_string())
        }
    }
}
