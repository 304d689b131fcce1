//! A window's results.

use std::ops::RangeInclusive;

use dovetail_sdk::{
    Context, EventTimeBuffer, Header, Message, Result, Slot,
    join::{JoinKind, Side, Window},
    json::Fields,
};

use crate::{
    Emit, WindowJoin,
    content::{Content, Firing, Row, Told, Totals},
};

/// Rows of a side read at once, and pairs after which a call leaves the rest to the next.
const PAGE: u32 = 100;
/// Left rows read at once.
const LEFTS: u32 = 16;

/// What a call has done so far.
#[derive(Debug, Default)]
struct Done {
    results: u32,
}

impl Done {
    fn is_enough(&self, context: &Context<'_>) -> bool {
        self.results >= PAGE || context.is_step_full()
    }
}

impl WindowJoin {
    /// Tells a step of what fires, and what follows for each window that is done.
    pub(crate) fn fire(&mut self, mut firing: Firing, context: &mut Context<'_>) -> Result {
        let mut done = Done::default();
        while let Some(window) = firing.windows.first().copied() {
            if !firing.is_told {
                if !self.tell_step(window, &mut firing, &mut done, context)? {
                    return self.steps.go_on(context, &firing);
                }
                firing.end_telling();
            }
            if firing.told == Told::Untold && !self.note_step(window, &mut firing, context)? {
                return self.steps.go_on(context, &firing);
            }
            if firing.is_due {
                self.after_due(window, context)?;
            }
            firing.end_window();
        }
        Ok(())
    }

    /// Tells a step of a window; returns whether that was all.
    fn tell_step(
        &mut self,
        window: Window,
        firing: &mut Firing,
        done: &mut Done,
        context: &mut Context<'_>,
    ) -> Result<bool> {
        match (self.emit, self.content) {
            (Emit::Totals, _) | (_, Content::Panes(_)) => self.tell_totals(window, context)?,
            (Emit::Groups, Content::Rows(rows)) => {
                self.tell_group(rows, window, &firing.told, context)?;
            }
            (Emit::Pairs, Content::Rows(rows)) => {
                return self.tell_pairs(rows, window, firing, done, context);
            }
        }
        Ok(true)
    }

    /// Notes of a step of a session's records that they have been told; returns whether that was
    /// all.
    fn note_step(
        &self,
        window: Window,
        firing: &mut Firing,
        context: &mut Context<'_>,
    ) -> Result<bool> {
        if self.lateness == 0 {
            return Ok(true);
        }
        let Content::Rows(sides) = self.content else {
            // What remains is to be told when it fires again.
            if let Some(sessions) = self.sessions {
                sessions.put(context, window, &Default::default())?;
            }
            return Ok(true);
        };
        let mut is_over = true;
        for (rows, after) in sides.into_iter().zip(&mut firing.after) {
            let times = self.windows.times(window);
            let (page, has_more) = rows.page_after(context, times, after.map(slot_of), PAGE)?;
            for (slot, mut row) in page {
                *after = Some((slot.time, slot.sequence));
                if row.told != Some(window.end) {
                    row.told = Some(window.end);
                    rows.replace(context, slot, &row)?;
                }
            }
            is_over &= !has_more;
        }
        Ok(is_over)
    }

    fn tell_totals(&mut self, window: Window, context: &mut Context<'_>) -> Result {
        let mut totals = Totals::default();
        match (self.sessions, self.content) {
            (Some(sessions), _) => {
                if let Some((_, session)) = sessions.ending(context, window.end)? {
                    totals = session.totals;
                }
            }
            (None, Content::Panes(panes)) => {
                for (_, pane) in panes.range(context, self.windows.times(window))? {
                    self.measured.merge(&mut totals, &pane)?;
                }
            }
            (None, Content::Rows(_)) => {}
        }
        self.emit_totals(window, &totals, context);
        Ok(())
    }

    /// Emits a window's totals, where they are a result.
    pub(crate) fn emit_totals(
        &mut self,
        window: Window,
        totals: &Totals,
        context: &mut Context<'_>,
    ) {
        let [has_left, has_right] = totals.has;
        if !self.is_result(has_left, has_right) {
            return;
        }
        let (start, end) = (window.start.to_string(), window.end.to_string());
        let texts = self.measured.texts(totals);
        let mut words = vec![word(has_left, has_right), &start, &end];
        words.extend(texts.iter().map(String::as_str));
        self.template.render(&[], &words, &mut self.out);
        self.main.send(context, Message::new(&self.out).time(window.last()));
    }

    fn tell_group(
        &mut self,
        rows: [EventTimeBuffer<Row>; 2],
        window: Window,
        told: &Told,
        context: &mut Context<'_>,
    ) -> Result {
        let mut lists: [Vec<String>; 2] = Default::default();
        let mut has = [false; 2];
        for side in [Side::Left, Side::Right] {
            let at = side.index();
            let mut new = rows[at].range(context, self.windows.times(window))?;
            new.retain(|(slot, row)| told.is_new(side, *slot, row));
            has[at] = !new.is_empty();
            lists[at] = lists_of(self.template.fields(at), &new);
        }
        if !self.is_result(has[0], has[1]) {
            return Ok(());
        }
        let lists = lists.each_ref().map(|lists| {
            lists.iter().map(|list| Some(list.as_str())).collect::<Vec<Option<&str>>>()
        });
        let (start, end) = (window.start.to_string(), window.end.to_string());
        let words = [word(has[0], has[1]), &start, &end];
        self.template.render(&[&lists[0], &lists[1]], &words, &mut self.out);
        self.main.send(context, Message::new(&self.out).time(window.last()));
        Ok(())
    }

    /// Returns whether a window with records of these sides has a result of its own.
    fn is_result(&self, has_left: bool, has_right: bool) -> bool {
        match (has_left, has_right) {
            (true, true) => self.kind != JoinKind::Anti,
            (true, false) => self.kind.keeps(Side::Left),
            (false, true) => self.kind.keeps(Side::Right),
            (false, false) => false,
        }
    }

    /// Tells a step of a window's pairs, or of its records without a partner; returns whether that
    /// was all.
    fn tell_pairs(
        &mut self,
        rows: [EventTimeBuffer<Row>; 2],
        window: Window,
        firing: &mut Firing,
        done: &mut Done,
        context: &mut Context<'_>,
    ) -> Result<bool> {
        let times = self.windows.times(window);
        let has = |rows: EventTimeBuffer<Row>, context: &mut Context<'_>| {
            rows.page(context, times.clone(), 1).map(|(first, _)| !first.is_empty())
        };
        let has = [has(rows[0], context)?, has(rows[1], context)?];
        match (has, self.kind) {
            ([true, true], JoinKind::Anti) => Ok(true),
            ([true, true], JoinKind::Semi) => {
                // Those that were told have had a partner before.
                let is_first = match firing.has_new_rights {
                    Some(is_known) => is_known,
                    None => self.all_new(rows[1], &times, &firing.told, context)?,
                };
                firing.has_new_rights = Some(is_first);
                let told = if is_first { Told::All } else { firing.told.clone() };
                self.tell_alone(Side::Left, rows[0], window, (&told, firing, done), context)
            }
            ([true, true], _) => self.tell_cross(rows, window, firing, done, context),
            ([true, false], kind) if kind.keeps(Side::Left) => {
                let told = firing.told.clone();
                self.tell_alone(Side::Left, rows[0], window, (&told, firing, done), context)
            }
            ([false, true], kind) if kind.keeps(Side::Right) => {
                let told = firing.told.clone();
                self.tell_alone(Side::Right, rows[1], window, (&told, firing, done), context)
            }
            _ => Ok(true),
        }
    }

    fn all_new(
        &self,
        rights: EventTimeBuffer<Row>,
        times: &RangeInclusive<i64>,
        told: &Told,
        context: &mut Context<'_>,
    ) -> Result<bool> {
        if *told == Told::All {
            return Ok(true);
        }
        let mut after = None;
        loop {
            let (page, has_more) = rights.page_after(context, times.clone(), after, PAGE)?;
            if page.iter().any(|(slot, row)| !told.is_new(Side::Right, *slot, row)) {
                return Ok(false);
            }
            after = page.last().map(|(slot, _)| *slot);
            if !has_more {
                return Ok(true);
            }
        }
    }

    /// Tells a step of one side's records without the other's.
    fn tell_alone(
        &mut self,
        side: Side,
        rows: EventTimeBuffer<Row>,
        window: Window,
        (told, firing, done): (&Told, &mut Firing, &mut Done),
        context: &mut Context<'_>,
    ) -> Result<bool> {
        loop {
            let after = firing.after[0].map(slot_of);
            let (page, has_more) =
                rows.page_after(context, self.windows.times(window), after, LEFTS)?;
            for (slot, row) in page {
                firing.after[0] = Some((slot.time, slot.sequence));
                if told.is_new(side, slot, &row) {
                    let pair = match side {
                        Side::Left => [Some(&row), None],
                        Side::Right => [None, Some(&row)],
                    };
                    self.tell(pair, window, done, context);
                }
                if context.is_step_full() {
                    return Ok(false);
                }
            }
            if !has_more {
                return Ok(true);
            }
            if done.is_enough(context) {
                return Ok(false);
            }
        }
    }

    /// Tells a step of a window's pairs, left row by left row.
    fn tell_cross(
        &mut self,
        [lefts, rights]: [EventTimeBuffer<Row>; 2],
        window: Window,
        firing: &mut Firing,
        done: &mut Done,
        context: &mut Context<'_>,
    ) -> Result<bool> {
        let times = |side: Side| match firing.told {
            // Only its own pairs are told.
            Told::Row(of, time, _) if of == side => time..=time,
            _ => self.windows.times(window),
        };
        let (left_times, right_times) = (times(Side::Left), times(Side::Right));
        loop {
            let [left_after, right_after] = firing.after.map(|after| after.map(slot_of));
            let (left_page, more_lefts) =
                lefts.page_after(context, left_times.clone(), left_after, LEFTS)?;
            let (right_page, more_rights) =
                rights.page_after(context, right_times.clone(), right_after, PAGE)?;
            let is_page = more_rights || right_after.is_some();
            let count = left_page.len();
            for (at, (slot, left)) in left_page.into_iter().enumerate() {
                let with = (window, &firing.told);
                let told = self.tell_left((slot, &left), &right_page, with, done, context);
                if told < right_page.len() {
                    // This left row alone goes on with the others.
                    let last = right_page[told - 1].0;
                    firing.after[1] = Some((last.time, last.sequence));
                    return Ok(false);
                }
                // With more rights behind the page this left row alone goes on with them.
                let last = right_page.last().filter(|_| more_rights).map(|(slot, _)| *slot);
                firing.after[1] = last.map(|slot| (slot.time, slot.sequence));
                if last.is_none() {
                    firing.after[0] = Some((slot.time, slot.sequence));
                }
                let is_last = !more_lefts && at + 1 == count;
                if is_page || (done.is_enough(context) && !is_last) {
                    return Ok(false);
                }
            }
            if !more_lefts {
                return Ok(true);
            }
        }
    }

    /// Tells the new pairs of a left row; returns with how many rights, fewer than there are where
    /// the step is full.
    fn tell_left(
        &mut self,
        left: (Slot, &Row),
        rights: &[(Slot, Row)],
        (window, told): (Window, &Told),
        done: &mut Done,
        context: &mut Context<'_>,
    ) -> usize {
        for (at, (slot, right)) in rights.iter().enumerate() {
            if told.is_new_pair(left, (*slot, right)) {
                self.tell([Some(left.1), Some(right)], window, done, context);
            }
            if context.is_step_full() {
                return at + 1;
            }
        }
        rights.len()
    }

    fn tell(
        &mut self,
        [left, right]: [Option<&Row>; 2],
        window: Window,
        done: &mut Done,
        context: &mut Context<'_>,
    ) {
        if left.is_some() && right.is_some() {
            self.matched.increment(context);
        } else {
            self.without_partner.increment(context);
        }
        let lefts = left.map(|row| self.template.fields(0).restore(row.fields.borrow()));
        let rights = right.map(|row| self.template.fields(1).restore(row.fields.borrow()));
        let (start, end) = (window.start.to_string(), window.end.to_string());
        self.template.render(
            &[lefts.as_deref().unwrap_or(&[]), rights.as_deref().unwrap_or(&[])],
            &[word(left.is_some(), right.is_some()), &start, &end],
            &mut self.out,
        );
        done.results += 1;
        let message = Message::new(&self.out).time(window.last());
        match (headers_of(left), headers_of(right)) {
            (headers, []) | ([], headers) => self.main.send(context, message.headers(headers)),
            (left, right) => {
                self.main.send(context, message.headers(&[left, right].concat()));
            }
        }
    }
}

/// Returns a JSON list per field.
fn lists_of(fields: &Fields, rows: &[(Slot, Row)]) -> Vec<String> {
    let mut lists = vec!["[".to_owned(); fields.len()];
    for (at, (_, row)) in rows.iter().enumerate() {
        let separator = if at > 0 { "," } else { "" };
        for (list, value) in lists.iter_mut().zip(&*fields.restore(row.fields.borrow())) {
            list.push_str(separator);
            list.push_str(value.unwrap_or("null"));
        }
    }
    lists.iter_mut().for_each(|list| list.push(']'));
    lists
}

fn slot_of((time, sequence): (i64, u64)) -> Slot {
    Slot { time, sequence }
}

fn headers_of(row: Option<&Row>) -> &[Header] {
    row.map_or(&[], |row| &row.headers)
}

/// The word `match` as JSON.
fn word(has_left: bool, has_right: bool) -> &'static str {
    match (has_left, has_right) {
        (true, true) => "\"BOTH\"",
        (true, false) => "\"LEFT\"",
        (false, _) => "\"RIGHT\"",
    }
}
