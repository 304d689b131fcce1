//! The component's exports, for any [`Plugin`].
//!
//! Invariant: a panic reaches the host as a message with its place before the guest traps.

use std::{cell::RefCell, marker::PhantomData};

use crate::{
    bindings::{self, dovetail::plugin::telemetry},
    context::Context,
    error::Result,
    handles::Input,
    imports::Host,
    plugin::{Plugin, Record, Timer, TimerDomain},
    setup::open,
};

/// A plugin whose type is forgotten, so that one static serves every plugin.
trait Handlers {
    fn process_element(&mut self, record: Record<'_>, context: &mut Context<'_>) -> Result;
    fn process_broadcast(&mut self, record: Record<'_>, context: &mut Context<'_>) -> Result;
    fn on_timer(&mut self, timer: Timer, context: &mut Context<'_>) -> Result;
}

impl<P: Plugin> Handlers for P {
    fn process_element(&mut self, record: Record<'_>, context: &mut Context<'_>) -> Result {
        Plugin::process_element(self, record, context)
    }

    fn process_broadcast(&mut self, record: Record<'_>, context: &mut Context<'_>) -> Result {
        Plugin::process_broadcast(self, record, context)
    }

    fn on_timer(&mut self, timer: Timer, context: &mut Context<'_>) -> Result {
        Plugin::on_timer(self, timer, context)
    }
}

thread_local! {
    static INSTANCE: RefCell<Option<Box<dyn Handlers>>> = const { RefCell::new(None) };
}

/// What [`crate::export!`] exports.
#[derive(Debug)]
pub struct Exported<P>(PhantomData<P>);

fn report_panics() {
    std::panic::set_hook(Box::new(|info| telemetry::panic(&info.to_string())));
}

fn with_instance(
    call: impl FnOnce(&mut dyn Handlers) -> Result,
) -> std::result::Result<(), String> {
    INSTANCE.with_borrow_mut(|instance| {
        let instance = instance.as_deref_mut().ok_or("the host has not called `open`")?;
        call(instance).map_err(|error| error.message().to_owned())
    })
}

impl<P: Plugin> bindings::Guest for Exported<P> {
    fn describe(config: String) -> std::result::Result<String, String> {
        let opened = open::<P>(&config);
        opened
            .map(|(_, description)| description.to_json())
            .map_err(|error| error.message().to_owned())
    }

    fn open(config: String) -> std::result::Result<(), String> {
        report_panics();
        let (plugin, _) = open::<P>(&config).map_err(|error| error.message().to_owned())?;
        INSTANCE.set(Some(Box::new(plugin)));
        Ok(())
    }

    fn process_element(
        input: u32,
        value: Option<Vec<u8>>,
        time: Option<i64>,
    ) -> std::result::Result<(), String> {
        let record = Record { input: Input(input), value: value.as_deref(), time };
        let mut context = Context::new(Host::new(), time);
        with_instance(|plugin| plugin.process_element(record, &mut context))
    }

    fn process_broadcast(
        input: u32,
        value: Option<Vec<u8>>,
        time: Option<i64>,
    ) -> std::result::Result<(), String> {
        let record = Record { input: Input(input), value: value.as_deref(), time };
        let mut context = Context::new(Host::new(), time);
        with_instance(|plugin| plugin.process_broadcast(record, &mut context))
    }

    fn on_timer(
        time: i64,
        domain: bindings::TimerDomain,
        tag: u64,
    ) -> std::result::Result<(), String> {
        let domain = match domain {
            bindings::TimerDomain::Event => TimerDomain::Event,
            bindings::TimerDomain::Processing => TimerDomain::Processing,
            bindings::TimerDomain::Continue => TimerDomain::Continue,
        };
        let timer = Timer { time, domain, tag };
        let mut context = Context::new(Host::new(), timer.event_time());
        with_instance(|plugin| plugin.on_timer(timer, &mut context))
    }
}
