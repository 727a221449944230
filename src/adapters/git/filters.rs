//! Decides which filters and merge drivers the supervisor does not use. The commands that git runs for them must not
//! run a file that an agent can write, because that file would run outside of any session. Only commands of a known
//! form are used.
//!
//! ```text
//!   program    by an absolute path outside of the city and the rig's checkout, or found there by the search path
//!   arguments  %f, for a merge driver %A, %B, %O and the like, options, numbers, absolute paths outside; other words
//!              only where the program takes them for data or for a command of its own
//!   shell      plain and quoted words: no expansion, pipe, list, redirection or variable
//!   code       a program that runs what it reads has a script outside for its first argument; one that runs its
//!              arguments is never used
//! ```

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use super::config_text::Settings;

/// Keys of a filter or a merge driver that hold a command.
const COMMANDS: &[&str] = &["clean", "smudge", "process", "driver"];
/// The placeholders that git replaces in a command: names of files and commits, sizes of marks.
const PLACEHOLDERS: &[&str] = &["%f", "%A", "%B", "%L", "%O", "%P", "%S", "%X", "%Y"];
/// Characters without a special meaning to a shell, outside of quotes.
const PLAIN: &str = "%-+=,.:/@_";
/// Programs whose first arguments are commands of their own, and not files.
const COMMANDED: &[&str] = &["git-lfs", "git-crypt", "git-annex"];
/// Programs that only read the files that they are given.
const READERS: &[&str] = &[
    "base64", "cat", "cut", "dos2unix", "expand", "fmt", "fold", "gunzip", "gzip", "head", "iconv",
    "nl", "rev", "tac", "tail", "tr", "unexpand", "unix2dos", "xz", "zcat",
];

/// Programs that run a file argument, or their input; without the digits of a version.
const INTERPRETERS: &[&str] = &[
    "ash", "awk", "bash", "bc", "bun", "csh", "dash", "dc", "deno", "ed", "elvish", "ex", "expect",
    "fish", "gawk", "guile", "java", "julia", "ksh", "lua", "luajit", "m4", "make", "mawk", "mksh",
    "nawk", "node", "nodejs", "nu", "perl", "php", "pwsh", "pypy", "python", "rbash", "ruby", "sh",
    "sqlite", "tclsh", "tcsh", "vi", "vim", "wish", "yash", "zsh",
];
/// Programs that run their arguments.
const WRAPPERS: &[&str] = &[
    "busybox", "chroot", "doas", "env", "exec", "eval", "find", "flock", "ionice", "nice", "nohup",
    "parallel", "script", "setsid", "ssh", "stdbuf", "strace", "su", "sudo", "taskset", "time",
    "timeout", "toybox", "unshare", "watch", "xargs",
];

/// The directories that programs come from.
#[derive(Debug)]
pub(super) struct Places<'a> {
    /// Directories with files that agents write, or that their landed work changes.
    pub(super) theirs: Vec<&'a Path>,
    /// The directories of the search path.
    pub(super) search: Vec<PathBuf>,
}

impl<'a> Places<'a> {
    /// Returns the directories with the search path of this process.
    pub(super) fn here(theirs: Vec<&'a Path>) -> Self {
        let search = std::env::var_os("PATH").unwrap_or_default();
        let search = std::env::split_paths(&search).collect();
        Self { theirs, search }
    }
}

/// Removes the filters and merge drivers that may run an agent's file, and returns their names: without them git
/// takes such a file as it is, and merges it as text. A name that is unsafe in one of the two configurations is
/// removed from both.
pub(super) fn disarm(
    own: &mut Settings,
    user: &mut Settings,
    places: &Places<'_>,
) -> BTreeSet<String> {
    let unfit = own.iter().chain(&*user).filter_map(|(key, value)| {
        let (name, key) = parts(key)?;
        let command = value.as_deref().unwrap_or_default();
        (COMMANDS.contains(&key) && !places.is_safe(command)).then(|| name.to_owned())
    });
    let unfit: BTreeSet<String> = unfit.collect();
    for settings in [own, user] {
        settings.retain(|(key, _)| parts(key).is_none_or(|(name, _)| !unfit.contains(name)));
    }
    unfit
}

/// Splits a key into `filter.NAME` or `merge.NAME`, and the rest.
fn parts(key: &str) -> Option<(&str, &str)> {
    let (name, key) = key.rsplit_once('.')?;
    let named = name.starts_with("filter.") || name.starts_with("merge.");
    named.then_some((name, key))
}

impl Places<'_> {
    /// Returns true if the command has the known form. An empty command runs nothing.
    fn is_safe(&self, command: &str) -> bool {
        let Some(words) = words(command) else {
            return false;
        };
        let Some((program, arguments)) = words.split_first() else {
            return true;
        };
        let name = program.rsplit('/').next().unwrap_or(program);
        let Some(file) = self.find(program) else {
            return false;
        };
        let real = file.and_then(|file| fs::canonicalize(file).ok());
        let real = real.as_deref().and_then(Path::file_name);
        let real = real.and_then(OsStr::to_str).unwrap_or(name);
        let is_any = |names: &[&str]| {
            let mut all = [name, kind(name), real, kind(real)].into_iter();
            all.any(|name| names.contains(&name))
        };
        match name {
            _ if is_any(WRAPPERS) => false,
            _ if is_any(INTERPRETERS) => arguments.split_first().is_some_and(|(script, rest)| {
                self.is_outside(Path::new(script)) && rest.iter().all(|word| self.is_inert(word))
            }),
            name if READERS.contains(&name) => true,
            name if COMMANDED.contains(&name) => arguments
                .iter()
                .all(|word| is_name(word) || self.is_inert(word)),
            "git" => {
                let lfs = arguments.first().is_some_and(|first| first == "lfs");
                lfs && arguments
                    .iter()
                    .all(|word| is_name(word) || self.is_inert(word))
            }
            "sed" => is_script(arguments),
            _ => arguments.iter().all(|word| self.is_inert(word)),
        }
    }

    /// Finds the program's file. None if the file may be an agent's; no file if the program does not exist, which git
    /// will report.
    fn find(&self, program: &str) -> Option<Option<PathBuf>> {
        if program.contains('/') {
            let file = Path::new(program);
            return self.is_outside(file).then(|| Some(file.to_owned()));
        }
        for dir in &self.search {
            if !self.is_outside(dir) {
                return None;
            }
            let file = dir.join(program);
            if fs::metadata(&file).is_ok_and(|meta| meta.is_file()) {
                return self.is_outside(&file).then_some(Some(file));
            }
        }
        Some(None)
    }

    /// Returns true if no program can take the word for a file of the work tree.
    fn is_inert(&self, word: &str) -> bool {
        let value = match word.strip_prefix('-') {
            Some(option) if option.starts_with('-') => match option.split_once('=') {
                Some((_, value)) => value,
                None => return true,
            },
            // The name of a file may follow a letter.
            Some(letters) => letters.get(1..).unwrap_or_default(),
            None => word,
        };
        let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
        PLACEHOLDERS.contains(&value) || is_number || self.is_outside(Path::new(value))
    }

    fn is_outside(&self, path: &Path) -> bool {
        let real = fs::canonicalize(path);
        // They are known by their real paths, too: a look at the disk of another rig may hang.
        let within = |path: &Path| self.theirs.iter().any(|dir| path.starts_with(dir));
        let up = path
            .components()
            .any(|part| part.as_os_str() == OsStr::new(".."));
        path.is_absolute() && !up && !within(path) && !real.is_ok_and(|real| within(&real))
    }
}

/// Returns the name of a program without its version.
fn kind(name: &str) -> &str {
    name.trim_end_matches(|char: char| char.is_ascii_digit() || char == '.' || char == '-')
}

fn is_name(word: &str) -> bool {
    word.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Returns true if sed's script is in the command itself.
fn is_script(arguments: &[String]) -> bool {
    let is_from_file = |word: &String| match word.strip_prefix('-') {
        Some(long) if long.starts_with('-') => long.starts_with("-f"),
        Some(letters) => {
            let end = letters.find('e').unwrap_or(letters.len());
            letters[..end].contains('f')
        }
        None => false,
    };
    !arguments.iter().any(is_from_file)
}

/// Splits a command into words as a shell does; none if a shell would do more than that.
fn words(command: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for char in command.chars() {
        match (quote, char) {
            (Some(open), char) if char == open => quote = None,
            (Some('"'), '$' | '`' | '\\' | '!') => return None,
            (Some(_), char) => word.get_or_insert_default().push(char),
            (None, '\'' | '"') => {
                word.get_or_insert_default();
                quote = Some(char);
            }
            (None, ' ' | '\t') => words.extend(word.take()),
            (None, char) if char.is_ascii_alphanumeric() || PLAIN.contains(char) => {
                word.get_or_insert_default().push(char);
            }
            (None, _) => return None,
        }
    }
    words.extend(word);
    // A variable assignment takes the place of the program.
    let assigns = words.first().is_some_and(|first| first.contains('='));
    (quote.is_none() && !assigns).then_some(words)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const SAFE: &[&str] = &[
        "",
        "git-lfs filter-process",
        "git-lfs clean -- %f",
        "git lfs smudge -- '%f'",
        "\"git-crypt\" \"smudge\"",
        "/usr/local/bin/git-crypt clean",
        "cat",
        "/opt/bin/clean %f",
        "python3 /opt/clean.py --level=3 -n5",
        "sh /opt/merge.sh %O %A %B",
        "expand --tabs=4 --initial",
        "tr a-z A-Z",
        "sed 's/\\$Id.*\\$/$Id$/'",
        "sed -e s/a/b/ -e s/b/c/",
    ];

    const UNSAFE: &[&str] = &[
        "./clean",
        "tools/clean %f",
        "'tools/clean' %f",
        "/city/rig/raiders/Toast/clean",
        "/home/ada/code/tools/clean",
        "/opt/../city/clean",
        "~/bin/clean",
        "$HOME/bin/clean",
        "sh tools/clean",
        "sh -c ./clean",
        "sh clean",
        "nice ./clean",
        "nice clean",
        "nice %f",
        "env %f",
        "env /bin/sh %f",
        "xargs",
        "sh",
        "bash -s",
        "sh %f",
        "sh -x %A",
        "/bin/sh %A",
        "python3 %f",
        "python3.11 -u %f",
        "perl -w %A",
        "m4 %f",
        "make -f%f",
        "node",
        "env clean",
        "awk -f clean.awk",
        "awk -fclean.awk",
        "gawk --file=clean.awk",
        "sed -f clean.sed",
        "sed -nf clean.sed",
        "sed --file=clean.sed",
        "git -c alias.x=!./clean x",
        "git clean",
        "make -C tools",
        "python3 clean.py",
        "python3 -m clean",
        "perl clean.pl",
        "cat | ./clean",
        "true && A=1 ./clean",
        "A=1 ./clean",
        "cat `./clean`",
        "cat \"$(./clean)\"",
        "cat 'a",
        ". clean",
    ];

    #[test]
    fn only_commands_of_a_known_form_are_used() {
        let places = Places {
            theirs: vec![Path::new("/city"), Path::new("/home/ada/code")],
            search: vec!["/usr/bin".into(), "/bin".into()],
        };
        for command in SAFE {
            assert!(places.is_safe(command), "{command}");
        }
        for command in UNSAFE {
            assert!(!places.is_safe(command), "{command}");
        }
    }

    #[test]
    fn program_is_looked_for_where_it_would_be_found() {
        let dir = crate::testing::scratch();
        let (city, bin) = (dir.path().join("city"), dir.path().join("bin"));
        for dir in [&city, &bin] {
            fs::create_dir(dir).unwrap();
            fs::write(dir.join("clean"), "").unwrap();
        }
        let finds = |search: &[&Path], program: &str| {
            let search = search.iter().map(|dir| dir.to_path_buf()).collect();
            let theirs = vec![city.as_path()];
            Places { theirs, search }.is_safe(program)
        };
        assert!(finds(&[&bin, &city], "clean"));
        assert!(!finds(&[&city, &bin], "clean"));
        assert!(!finds(&[Path::new("bin"), &bin], "clean"));
        let link = bin.join("link");
        symlink("/bin/sh", bin.join("tidy")).unwrap();
        assert!(!finds(&[&bin], "tidy %f"), "a shell by another name");
        symlink(city.join("clean"), &link).unwrap();
        assert!(!finds(&[&bin], "link"));
        assert!(!finds(&[&bin], link.to_str().unwrap()));
    }

    #[test]
    fn unfit_filters_and_merge_drivers_are_taken_out_of_both() {
        let set = |key: &str, value: &str| (key.to_owned(), Some(value.to_owned()));
        let mut own = vec![
            set("filter.lfs.process", "git-lfs filter-process"),
            set("filter.a.b.clean", "./clean"),
            set("filter.a.b.required", "true"),
            set("merge.conflictstyle", "diff3"),
            set("merge.ours.driver", "true"),
            set("merge.mine.name", "mine"),
            set("user.name", "./x"),
        ];
        let mut user = vec![
            set("filter.own.smudge", "./own"),
            set("filter.a.b.smudge", "cat"),
            set("merge.mine.driver", "tools/merge %O %A %B"),
            set(
                "merge.theirs.driver",
                "/opt/bin/merge --git %O %A %B -s %S -p %P",
            ),
        ];
        let places = Places {
            theirs: vec![Path::new("/city")],
            search: Vec::new(),
        };
        let out = disarm(&mut own, &mut user, &places);
        let names: Vec<_> = out.iter().map(String::as_str).collect();
        assert_eq!(names, ["filter.a.b", "filter.own", "merge.mine"]);
        let keys = |settings: &Settings| -> Vec<String> {
            settings.iter().map(|(key, _)| key.clone()).collect()
        };
        let kept = [
            "filter.lfs.process",
            "merge.conflictstyle",
            "merge.ours.driver",
            "user.name",
        ];
        assert_eq!(keys(&own), kept);
        assert_eq!(keys(&user), ["merge.theirs.driver"]);
    }
}
