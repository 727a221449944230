//! The lines of a transcript, made from frames.
//!
//! A row that scrolls off is a line. A replaced row is a line too, unless the new row is a later state of it. It is
//! placed below the row that was above it, and withdrawn when it comes back: it appears once, where it was last seen.

use std::collections::{HashMap, VecDeque};

use super::fold;
use super::terminal::{Frame, Row};
use super::terminal_log::is_like_title;

/// The number of lines that are kept; older lines are dropped.
const MOST: usize = 50_000;
/// A line that comes back after more other lines than this is a new line.
const RECENT: usize = 400;
/// The number of rows that may change separately in one frame; more are moved together.
const FEW: usize = 4;
/// A row that shows another text in this many consecutive frames is an animation: no person could read it.
const ANIMATED: usize = 3;
/// The number of consecutive blank lines that are kept.
const BLANKS: usize = 2;

/// Index of a line.
type Id = usize;

/// The lines so far.
#[derive(Default)]
pub struct Lines {
    lines: Vec<Line>,
    /// The lines that have left the screen, in order.
    order: VecDeque<Id>,
    /// The first line of this session.
    begin: Id,
    /// The screen of the last frame.
    screen: Vec<Shown>,
    /// The number of frames.
    frames: usize,
    /// The first frame of each text's present stay on the screen.
    since: HashMap<String, usize>,
    /// Lines that are withdrawn when their text comes back.
    replaced: HashMap<String, VecDeque<Id>>,
    /// The same for lines with a spinner or clock, by their key.
    turning: HashMap<String, Id>,
    /// Texts that each row of the screen has shown for one frame only.
    restless: Vec<Restless>,
}

struct Line {
    text: String,
    /// Set when the next line continues it.
    wraps: bool,
    origin: Origin,
    withdrawn: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// It names the session that follows.
    Title,
    /// It scrolled off, or is on the final screen.
    Flow,
    /// It was replaced.
    Replaced,
}

/// A row, and the replaced lines that stood below it.
#[derive(Default)]
struct Shown {
    row: Row,
    behind: Vec<Id>,
}

/// A row that changes in each frame.
#[derive(Default, Clone)]
struct Restless {
    frames: usize,
    lines: Vec<Id>,
}

impl Lines {
    /// Begins a session.
    pub fn title(&mut self, title: &str) {
        let id = self.add(title.to_owned(), false, Origin::Title);
        self.order.push_back(id);
    }

    /// Adds the next frame.
    pub fn frame(&mut self, frame: Frame) {
        self.frames += 1;
        let is_same = frame
            .rows
            .iter()
            .eq(self.screen.iter().map(|shown| &shown.row));
        if frame.scrolled.is_empty() && is_same {
            self.restless.clear();
            return;
        }
        let old = std::mem::take(&mut self.screen);
        let scrolled = frame.scrolled.len();
        let rows = frame.scrolled.into_iter().chain(frame.rows);
        let mut new: Vec<Shown> = rows
            .map(|row| Shown {
                row,
                behind: Vec::new(),
            })
            .collect();
        let fates = Fates::of(&old, &new, scrolled);
        for at in &fates.fresh {
            self.comes_back(&new[*at].row.text);
        }
        self.carry_over(old, &mut new, &fates, scrolled);
        let rows = new.split_off(scrolled);
        new.into_iter().for_each(|shown| self.leave(shown));
        let since = |shown: &Shown| {
            let text = &shown.row.text;
            (
                text.clone(),
                self.since.get(text).copied().unwrap_or(self.frames),
            )
        };
        self.since = rows.iter().map(since).collect();
        self.screen = rows;
    }

    /// Carries the old screen's lines over to the new one: the lines of each old row go to the row that it has become,
    /// and those of a lost row to the row above it.
    fn carry_over(&mut self, old: Vec<Shown>, new: &mut [Shown], fates: &Fates, scrolled: usize) {
        let mut above = None;
        for (at, shown) in old.into_iter().enumerate() {
            let mut behind = Vec::new();
            let fate = fates.of_old[at];
            if fate == Fate::Lost {
                let now = new.get(scrolled + at).map(|now| now.row.text.as_str());
                behind.extend(self.replace(at, &shown.row, now.unwrap_or_default()));
            } else if let Some(restless) = self.restless.get_mut(at) {
                *restless = Restless::default();
            }
            behind.extend(shown.behind);
            if let Fate::Becomes(to) = fate {
                above = Some(to);
            }
            match above {
                Some(to) => new[to].behind.extend(behind),
                None => self.order.extend(behind),
            }
        }
    }

    /// Records that the lines that have scrolled off are erased: the same text that comes again is the same line.
    pub fn forget_scrolled(&mut self) {
        for id in &self.order {
            let line = &self.lines[*id];
            if *id >= self.begin && line.origin == Origin::Flow && !line.withdrawn {
                let known = self.replaced.entry(line.text.clone()).or_default();
                known.push_back(*id);
            }
        }
    }

    /// Ends a session: the content of its screen was seen last.
    pub fn end(&mut self) {
        let mut screen = std::mem::take(&mut self.screen);
        let is_used = |shown: &Shown| !shown.row.text.is_empty() || !shown.behind.is_empty();
        let used = screen.iter().rposition(is_used);
        screen.truncate(used.map_or(0, |last| last + 1));
        screen.into_iter().for_each(|shown| self.leave(shown));
        *self = Self {
            begin: self.lines.len(),
            lines: std::mem::take(&mut self.lines),
            order: std::mem::take(&mut self.order),
            ..Self::default()
        };
    }

    /// Returns the text.
    pub fn into_text(self) -> String {
        let mut text = String::new();
        let mut blanks = 0;
        let lines = self.order.iter().map(|id| &self.lines[*id]);
        let mut lines = lines.filter(|line| !line.withdrawn).peekable();
        while let Some(line) = lines.next() {
            blanks = if line.text.trim().is_empty() {
                blanks + 1
            } else {
                0
            };
            if blanks > BLANKS || (blanks > 0 && text.is_empty()) {
                continue;
            }
            // A title is the supervisor's: a line of the session that looks like one is set off.
            let begins = text.is_empty() || text.ends_with('\n');
            if begins && line.origin != Origin::Title && is_like_title(&line.text) {
                text.push(' ');
            }
            text.push_str(&line.text);
            let goes_on = lines.peek().is_some_and(|next| next.origin == Origin::Flow);
            if !(line.wraps && goes_on) {
                text.push('\n');
            }
        }
        text
    }

    fn add(&mut self, text: String, wraps: bool, origin: Origin) -> Id {
        self.lines.push(Line {
            text,
            wraps,
            origin,
            withdrawn: false,
        });
        self.lines.len() - 1
    }

    /// Adds a row that has left the screen.
    fn leave(&mut self, shown: Shown) {
        let id = self.add(shown.row.text, shown.row.wraps, Origin::Flow);
        self.order.push_back(id);
        self.order.extend(shown.behind);
        while self.order.len() > MOST {
            let oldest = self.order.pop_front();
            if let Some(line) = oldest.and_then(|id| self.lines.get_mut(id)) {
                line.text = String::new();
            }
        }
    }

    fn withdraw(&mut self, id: Id) {
        self.lines[id].withdrawn = true;
    }

    /// Handles a text that was replaced before and is there again: it moves to the place where it is seen last.
    fn comes_back(&mut self, text: &str) {
        while let Some(id) = self.replaced.get_mut(text).and_then(VecDeque::pop_front) {
            let line = &self.lines[id];
            if line.origin == Origin::Flow || self.lines.len() - id <= RECENT {
                self.withdraw(id);
                break;
            }
        }
        if let Some(id) = fold::key(text).and_then(|key| self.turning.remove(&key)) {
            self.withdraw(id);
        }
    }

    /// Handles a replaced row: it becomes a line, unless its place on the screen shows another text in each frame.
    fn replace(&mut self, at: usize, row: &Row, now: &str) -> Option<Id> {
        if !fold::is_text(&row.text) {
            return None;
        }
        let since = self.since.get(&row.text);
        let was_passing = !now.is_empty() && since.is_some_and(|since| since + 1 == self.frames);
        if self.restless.len() <= at {
            self.restless.resize(at + 1, Restless::default());
        }
        if was_passing {
            self.restless[at].frames += 1;
            if self.restless[at].frames >= ANIMATED {
                for id in std::mem::take(&mut self.restless[at].lines) {
                    self.withdraw(id);
                }
                return None;
            }
        }
        let id = self.add(row.text.clone(), false, Origin::Replaced);
        self.replaced
            .entry(row.text.clone())
            .or_default()
            .push_back(id);
        if let Some(earlier) = fold::key(&row.text).and_then(|key| self.turning.insert(key, id)) {
            self.withdraw(earlier);
        }
        if was_passing {
            self.restless[at].lines.push(id);
        }
        Some(id)
    }
}

/// The fate of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It has become this row, which is the same or a later state of it.
    Becomes(usize),
    /// It is blank, or was replaced.
    Lost,
}

/// The fates of the rows of a screen.
struct Fates {
    of_old: Vec<Fate>,
    /// The new rows that were not there before.
    fresh: Vec<usize>,
}

impl Fates {
    /// Compares an old screen with its successor: the rows that scrolled off, followed by the new screen.
    fn of(old: &[Shown], new: &[Shown], scrolled: usize) -> Self {
        let mut places: HashMap<&str, VecDeque<usize>> = HashMap::new();
        for (at, shown) in new
            .iter()
            .enumerate()
            .filter(|(_, shown)| !shown.row.text.is_empty())
        {
            places.entry(&shown.row.text).or_default().push_back(at);
        }
        let mut of_old: Vec<Fate> = old
            .iter()
            .map(|shown| {
                places
                    .get_mut(shown.row.text.as_str())
                    .and_then(VecDeque::pop_front)
            })
            .map(|place| place.map_or(Fate::Lost, Fate::Becomes))
            .collect();
        let mut fresh: Vec<usize> = places.into_values().flatten().collect();
        fresh.sort_unstable();
        let lost: Vec<usize> = (0..old.len())
            .filter(|at| of_old[*at] == Fate::Lost && !old[*at].row.text.is_empty())
            .collect();
        let same_row = |at: usize| {
            let to = scrolled + at;
            fresh
                .binary_search(&to)
                .is_ok()
                .then(|| (to, new[to].row.text.as_str()))
        };
        let alike = |at: &&usize| {
            let later = same_row(**at);
            later.is_some_and(|(_, later)| fold::is_alike(&old[**at].row.text, later))
        };
        let few = lost.iter().filter(alike).count() <= FEW;
        for at in lost {
            let text = &old[at].row.text;
            let written_on = || {
                let mut fresh = fresh.iter().copied();
                fresh.find(|to| fold::continues(text, &new[*to].row.text))
            };
            let updated = same_row(at).filter(|(_, later)| {
                fold::updates(text, later) || few && fold::is_alike(text, later)
            });
            if let Some(to) = updated.map(|(to, _)| to).or_else(written_on) {
                of_old[at] = Fate::Becomes(to);
            }
        }
        Self { of_old, fresh }
    }
}
