//! The lines of a transcript, made from frames.
//!
//! A row that scrolls off is a line. A row that was replaced is one, too, unless what is new is the same
//! line later. It stands behind the row that was above it, and it is withdrawn when it comes back: it is
//! there once, where it was seen last.

use std::collections::{HashMap, VecDeque};

use super::fold;
use super::terminal::{Frame, Row};

/// Lines that are kept; older ones go.
const MOST: usize = 50_000;
/// A line that comes back after so many others is another one.
const RECENT: usize = 400;
/// So many rows may change one by one in one frame; more are moved together.
const FEW: usize = 4;
/// A row that shows another text in so many frames running is an animation: nobody could read it.
const ANIMATED: usize = 3;
/// Blank lines running that are kept.
const BLANKS: usize = 2;

/// Names a line.
type Id = usize;

/// Lines so far.
#[derive(Default)]
pub struct Lines {
    lines: Vec<Line>,
    /// The lines that have left the screen, in order.
    order: VecDeque<Id>,
    /// The first line of this session.
    begin: Id,
    /// The screen of the last frame.
    screen: Vec<Shown>,
    /// How many frames there were.
    frames: usize,
    /// Since which frame a text has been on the screen.
    since: HashMap<String, usize>,
    /// Lines that are withdrawn when their text comes back.
    replaced: HashMap<String, VecDeque<Id>>,
    /// The same for lines with a spinner or clock, by their key.
    turning: HashMap<String, Id>,
    /// What each row of the screen has shown for one frame only.
    restless: Vec<Restless>,
}

struct Line {
    text: String,
    /// Whether the next line goes on in it.
    wraps: bool,
    origin: Origin,
    withdrawn: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// It names the session that follows.
    Title,
    /// It scrolled off, or is on the screen in the end.
    Flow,
    /// It was replaced.
    Replaced,
}

/// A row, and the lines that stood below it and were replaced.
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

    /// Takes the next frame in.
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

    /// Takes what the old screen had to the new one: each old row's lines go to what has become of it, and a
    /// row that is lost to the one above it.
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

    /// The lines that have scrolled off are erased: what comes again is the same.
    pub fn forget_scrolled(&mut self) {
        for id in &self.order {
            let line = &self.lines[*id];
            if *id >= self.begin && line.origin == Origin::Flow && !line.withdrawn {
                let known = self.replaced.entry(line.text.clone()).or_default();
                known.push_back(*id);
            }
        }
    }

    /// Ends a session: what is on its screen is what was seen last.
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

    /// The text.
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

    /// A row has left the screen.
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

    /// A text is there that was replaced before: it goes where it is seen last.
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

    /// A row was replaced: it is a line, unless its place on the screen shows something else each time.
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

/// What has become of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It is this row by now, which is the same or the same line later.
    Becomes(usize),
    /// It is blank, or was replaced.
    Lost,
}

/// What has become of the rows of a screen.
struct Fates {
    of_old: Vec<Fate>,
    /// The new rows that were not there before.
    fresh: Vec<usize>,
}

impl Fates {
    /// Compares an old screen with what came after: the rows that scrolled off, and then the screen.
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
