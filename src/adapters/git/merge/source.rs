//! Generates realistic source text: functions with the same lines in them, nested keys, lists, headings, and files of
//! this project. The lines that a diff takes for equal decide where a change lands.

use std::path::Path;

use git2::FileMode;

use super::fuzz::Random;
use super::lab::Files;

/// Makes the files that a case starts from, one of each language and two of this project's.
pub(super) fn tree(random: &mut Random) -> Files {
    let mut files = Files::new();
    let mut add = |path: &str, lines: Vec<String>| {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        files.insert(path.to_owned(), (text.into_bytes(), FileMode::Blob));
    };
    add("cmd/serve.go", go(random));
    add("pkg/store/store.go", go(random));
    add("app/models.py", python(random));
    add("deploy/values.yml", yaml(random));
    add("docs/guide.md", markdown(random));
    for at in 0..2 {
        let (path, lines) = own(random);
        add(&format!("{at}/{path}"), lines);
    }
    if random.below(6) == 0 {
        let line = ["*.md merge=union", "*.yml -merge", "*.py text eol=lf"][random.below(3)];
        add(".gitattributes", vec![line.to_owned()]);
    }
    files
}

/// Makes functions of a few statements, most of which occur in every function.
pub(super) fn go(random: &mut Random) -> Vec<String> {
    let statements: [&[&str]; 7] = [
        &["\tdefer mu.Unlock()", "\tmu.Lock()"],
        &["\tif err != nil {", "\t\treturn err", "\t}"],
        &["\tfor _, item := range items {", "\t\tcount++", "\t}"],
        &["\tlog.Printf(\"%d\", count)"],
        &[
            "\tctx, cancel := context.WithCancel(ctx)",
            "\tdefer cancel()",
        ],
        &[""],
        &["\titems = append(items, item)"],
    ];
    let mut lines = vec!["package main".to_owned(), String::new()];
    for _ in 0..2 + random.below(5) {
        lines.push(format!(
            "func F{}(ctx context.Context) error {{",
            random.below(90)
        ));
        for _ in 0..1 + random.below(6) {
            let chosen = statements[random.below(statements.len())];
            lines.extend(chosen.iter().map(|&line| line.to_owned()));
        }
        lines.extend(["\treturn nil", "}", ""].map(str::to_owned));
    }
    lines
}

fn python(random: &mut Random) -> Vec<String> {
    let mut lines = vec!["import os".to_owned(), String::new()];
    for _ in 0..2 + random.below(3) {
        lines.push(format!("class Model{}:", random.below(40)));
        for _ in 0..1 + random.below(4) {
            lines.push(format!(
                "    def get_{}(self, value=None):",
                random.below(20)
            ));
            for _ in 0..1 + random.below(3) {
                let body: [&[&str]; 4] = [
                    &["        if value is None:", "            return None"],
                    &["        for row in self.rows:", "            yield row"],
                    &["        self.count += 1"],
                    &[
                        "        try:",
                        "            self.save()",
                        "        except OSError:",
                        "            pass",
                    ],
                ];
                let chosen = body[random.below(body.len())];
                lines.extend(chosen.iter().map(|&line| line.to_owned()));
            }
            lines.extend(["        return value".to_owned(), String::new()]);
        }
    }
    lines
}

fn yaml(random: &mut Random) -> Vec<String> {
    let mut lines = Vec::new();
    for _ in 0..2 + random.below(5) {
        lines.push(format!("service{}:", random.below(30)));
        lines.extend(["  image: registry/app", "  ports:"].map(str::to_owned));
        for _ in 0..1 + random.below(3) {
            lines.push(format!("    - \"80{}:80\"", random.below(9)));
        }
        lines.extend(["  env:", "    LEVEL: info", "    DEBUG: \"0\""].map(str::to_owned));
    }
    lines
}

fn markdown(random: &mut Random) -> Vec<String> {
    let mut lines = vec!["# Guide".to_owned(), String::new()];
    for _ in 0..2 + random.below(5) {
        lines.extend([format!("## Part {}", random.below(30)), String::new()]);
        for _ in 0..1 + random.below(4) {
            lines
                .push(["- run it", "- wait", "Then go on.", "```", ""][random.below(5)].to_owned());
        }
        lines.push(String::new());
    }
    lines
}

/// Returns a file of this project.
fn own(random: &mut Random) -> (String, Vec<String>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dirs = [
        "src/domain",
        "src/adapters/git",
        "src/actors",
        "src/control",
    ];
    let dir = root.join(dirs[random.below(dirs.len())]);
    let entries = std::fs::read_dir(dir).unwrap().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    paths.sort();
    let path = &paths[random.below(paths.len())];
    let text = std::fs::read_to_string(path).unwrap();
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    (name, text.lines().map(str::to_owned).collect())
}

/// Makes one change as people do: writes, copies, moves, indents or removes lines.
pub(super) fn edit(random: &mut Random, lines: &mut Vec<String>) {
    let (length, at) = (lines.len().max(1), random.below(lines.len().max(1)));
    let end = (at + 1 + random.below(5)).min(lines.len());
    match random.below(9) {
        _ if lines.is_empty() => lines.push("first".to_owned()),
        0 => drop(lines.drain(at..end)),
        1 => lines.insert(at, lines[random.below(length)].clone()),
        2 => lines.insert(at, format!("    note({})", random.below(30))),
        3 => lines[at] = format!("{} // {}", lines[at], random.below(9)),
        4 => {
            let block: Vec<String> = lines[at..end].to_vec();
            let to = random.below(length);
            lines.splice(to..to, block);
        }
        5 => {
            let block: Vec<String> = lines.drain(at..end).collect();
            let to = random.below(lines.len() + 1);
            lines.splice(to..to, block);
        }
        6 => lines[at..end]
            .iter_mut()
            .for_each(|line| line.insert_str(0, "  ")),
        7 if at + 1 < length => lines.swap(at, at + 1),
        _ => lines.insert(at, String::new()),
    }
}

/// Changes some of a file's lines.
pub(super) fn edit_file(random: &mut Random, content: &mut Vec<u8>) {
    let text = String::from_utf8_lossy(content);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for _ in 0..1 + random.below(3) {
        edit(random, &mut lines);
    }
    *content = lines
        .into_iter()
        .flat_map(|line| (line + "\n").into_bytes())
        .collect();
}
