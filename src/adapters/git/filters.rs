//! Filters of the rig's checkout that the supervisor does not use. git runs a filter in the work tree. A program that is
//! named by a relative path is then a file that an agent can write, and it would run outside of any session.

use std::collections::BTreeSet;
use std::path::Path;

use super::settings::Settings;

/// Keys of a filter that hold a command.
const COMMANDS: &[&str] = &["clean", "smudge", "process"];
/// Characters that end a command in a shell.
const ENDS: &[char] = &['|', ';', '&', '\n', '(', ')', '`'];
/// Programs that run what their first argument names.
const RUNNERS: &[&str] = &[
    "sh", "bash", "dash", "zsh", "env", "node", "exec", "command",
];

/// Removes the filters that may run a file of the work tree or of the city; returns their names.
pub(super) fn drop_relative(settings: &mut Settings, city: &Path) -> BTreeSet<String> {
    let relative = settings.iter().filter_map(|(key, value)| {
        let (name, key) = parts(key)?;
        let command = value.as_deref().unwrap_or_default();
        (COMMANDS.contains(&key) && !is_fixed(command, city)).then(|| name.to_owned())
    });
    let relative: BTreeSet<String> = relative.collect();
    settings.retain(|(key, _)| parts(key).is_none_or(|(name, _)| !relative.contains(name)));
    relative
}

fn parts(key: &str) -> Option<(&str, &str)> {
    key.strip_prefix("filter.")?.rsplit_once('.')
}

/// Whether all that the command runs is found by the search path, or lies outside of the city.
fn is_fixed(command: &str, city: &Path) -> bool {
    command.split(ENDS).all(|part| {
        let words = part.split_whitespace();
        let words = words.map(|word| word.trim_matches(['"', '\'']));
        let is_variable = |word: &&str| word.contains('=') && !word.starts_with('/');
        let words: Vec<&str> = words.skip_while(is_variable).collect();
        let Some((program, words)) = words.split_first() else {
            return true;
        };
        let name = program.rsplit('/').next().unwrap_or(program);
        let runs = RUNNERS.contains(&name) || name.starts_with("python");
        let inline = words.iter().any(|word| {
            let short = word.starts_with('-') && !word.starts_with("--");
            short && word.contains('e')
        });
        let script = matches!(name, "perl" | "ruby") && !inline;
        let first = words.iter().find(|word| !word.starts_with('-'));
        let found = !program.contains('/') || is_outside(program, city);
        let reads = !(runs || script) || first.is_some_and(|first| is_outside(first, city));
        found && reads && !matches!(name, "." | "source")
    })
}

fn is_outside(path: &str, city: &Path) -> bool {
    let home = path.starts_with("~/") || path.starts_with("$HOME/");
    let path = Path::new(path);
    let up = path.components().any(|part| part.as_os_str() == "..");
    !up && (home || path.is_absolute() && !path.starts_with(city))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_that_may_be_an_agents_file_are_left_out() {
        let city = Path::new("/city");
        let fixed = [
            "git-lfs filter-process",
            "git-lfs clean -- %f",
            "sed -e s/a/b/ | cat",
            "/opt/bin/clean %f",
            "~/bin/clean",
            "LC_ALL=C sort",
            "perl -pe 's/a/b/'",
            "python3 /opt/clean.py",
            "cat",
        ];
        for command in fixed {
            assert!(is_fixed(command, city), "{command}");
        }
        let relative = [
            "./clean",
            "tools/clean %f",
            "'tools/clean' %f",
            "/city/rig/raiders/Toast/clean",
            "/opt/../city/clean",
            "sh tools/clean",
            "sh -c ./clean",
            "python3 clean.py",
            "perl clean.pl",
            "cat | ./clean",
            "true && A=1 ./clean",
            ". clean",
        ];
        for command in relative {
            assert!(!is_fixed(command, city), "{command}");
        }
        let set = |key: &str, value: &str| (key.to_owned(), Some(value.to_owned()));
        let mut settings = vec![
            set("filter.lfs.process", "git-lfs filter-process"),
            set("filter.a.b.clean", "./clean"),
            set("filter.a.b.required", "true"),
            set("user.name", "./x"),
        ];
        let dropped = drop_relative(&mut settings, city);
        assert_eq!(dropped.into_iter().collect::<Vec<_>>(), ["a.b"]);
        let left: Vec<_> = settings.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(left, ["filter.lfs.process", "user.name"]);
    }
}
