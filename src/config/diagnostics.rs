//! Errors and warnings of a configuration, for people (with carets) and for programs (as JSON).

use std::fmt;
use std::path::Path;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use serde_json::json;

use super::document::{Source, SourceSpan};

/// The severity of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The configuration cannot be used.
    Error,
    /// The configuration can be used, but is probably a mistake.
    Warning,
}

/// A single error or warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Its severity.
    pub severity: Severity,
    /// A lowercase fragment.
    pub message: String,
    /// Advice on what to do about it.
    pub hint: Option<String>,
    pub(super) place: Option<SourceSpan>,
    pub(super) related: Vec<(SourceSpan, String)>,
}

impl Diagnostic {
    /// Makes an error without a place.
    pub(super) fn error(message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            message: message.into(),
            hint: None,
            place: None,
            related: Vec::new(),
        }
    }

    /// Makes a warning without a place.
    pub(super) fn warning(message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(message)
        }
    }

    /// Adds the place.
    #[must_use]
    pub(super) fn at(mut self, place: &SourceSpan) -> Self {
        self.place = Some(place.clone());
        self
    }

    /// Adds advice on what to do.
    #[must_use]
    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds a second place that is related.
    #[must_use]
    pub(super) fn related(mut self, place: &SourceSpan, label: impl Into<String>) -> Self {
        self.related.push((place.clone(), label.into()));
        self
    }
}

/// All diagnostics of a configuration, with the sources that they are about.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Diagnostics {
    sources: Vec<Source>,
    items: Vec<Diagnostic>,
}

impl Diagnostics {
    /// Sorts the diagnostics by file, then by line.
    pub(super) fn new(sources: Vec<Source>, mut items: Vec<Diagnostic>) -> Self {
        items.sort_by(|a, b| a.place.cmp(&b.place));
        items.dedup();
        Self { sources, items }
    }

    /// Returns whether there are no diagnostics.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Iterates over the diagnostics.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.items.iter()
    }

    /// Renders for people; with colours if `color` is set.
    #[must_use]
    pub fn render(&self, color: bool) -> String {
        let renderer = if color {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        let rendered = self
            .items
            .iter()
            .map(|item| renderer.render(&[self.group(item)]));
        rendered.collect::<Vec<_>>().join("\n\n")
    }

    /// Renders for programs: `[{severity,file,line,column,message,hint}]`; file and position are null when unknown.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        let items = self.items.iter().map(|item| {
            let at = item.place.as_ref().and_then(|place| self.position(place));
            json!({
                "severity": match item.severity {
                    Severity::Error => "error",
                    Severity::Warning => "warning",
                },
                "file": at.map(|(file, _, _)| file.display().to_string()),
                "line": at.map(|(_, line, _)| line),
                "column": at.map(|(_, _, column)| column),
                "message": item.message,
                "hint": item.hint,
            })
        });
        items.collect()
    }

    /// Returns file, line and column, both counted from 1 in characters.
    fn position(&self, place: &SourceSpan) -> Option<(&Path, usize, usize)> {
        let source = self.sources.get(place.source)?;
        let before = source.text.get(..place.start)?;
        let line = before.matches('\n').count() + 1;
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let column = before[line_start..].chars().count() + 1;
        Some((&source.path, line, column))
    }

    fn group<'a>(&'a self, item: &'a Diagnostic) -> Group<'a> {
        let level = match item.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let mut group = level.primary_title(item.message.as_str()).elements(
            self.snippets(item)
                .into_iter()
                .collect::<Vec<Snippet<'a, _>>>(),
        );
        if let Some(hint) = &item.hint {
            group = group.element(Level::HELP.message(hint.as_str()));
        }
        group
    }

    /// Returns a snippet per source that the diagnostic points into, that with the caret first.
    fn snippets<'a>(
        &'a self,
        item: &'a Diagnostic,
    ) -> Vec<Snippet<'a, annotate_snippets::Annotation<'a>>> {
        let Some(place) = &item.place else {
            return Vec::new();
        };
        let mut marks = vec![(place, None, AnnotationKind::Primary)];
        for (place, label) in &item.related {
            marks.push((place, Some(label.as_str()), AnnotationKind::Context));
        }
        let mut order: Vec<usize> = Vec::new();
        for (place, _, _) in &marks {
            if !order.contains(&place.source) {
                order.push(place.source);
            }
        }
        let in_order = order.into_iter().filter_map(|index| {
            let source = self.sources.get(index)?;
            let here = marks.iter().filter(|(place, _, _)| place.source == index);
            let annotations = here.map(|(place, label, kind)| {
                let annotation = kind.span(place.start..place.end);
                match label {
                    Some(label) => annotation.label(*label),
                    None => annotation,
                }
            });
            Some(
                Snippet::source(source.text.as_str())
                    .path(source.path.display().to_string())
                    .annotations(annotations.collect::<Vec<_>>()),
            )
        });
        in_order.collect()
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Diagnostics {}
