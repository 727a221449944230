//! The command line of `hd cv`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::control::protocol::args;

/// `hd cv`.
#[derive(Debug, Args)]
#[group(skip)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(in crate::cli) struct Cv {
    #[command(subcommand)]
    pub verb: Option<CvVerb>,
    #[command(flatten)]
    pub cv: args::Cv,
}

/// Verbs of `hd cv`.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum CvVerb {
    /// Write the chains of this city as JSON lines, for `hd cv import` in another one
    Export(CvTo),
    /// Verify the chains of another city, and keep them apart from this city's own
    Import(CvFile),
    /// Delete the chains that were imported from a city; asks first
    Forget(args::CvForget),
}

/// `hd cv export`.
#[derive(Debug, Args)]
#[command(allow_missing_positional = true)]
pub(in crate::cli) struct CvTo {
    #[command(flatten)]
    pub of: args::CvExport,
    /// The file; `-` is standard output
    #[arg(required = true)]
    pub file: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    pub force: bool,
}

/// `hd cv import`.
#[derive(Debug, Args)]
pub(in crate::cli) struct CvFile {
    /// The file; `-` reads standard input
    pub file: PathBuf,
    /// The name of the city here; default: its own
    #[arg(long = "as", value_name = "NAME")]
    pub as_name: Option<String>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use crate::cli::args::Cli;

    /// `hd cv forget CITY` panicked: its argument had the id of `--city`, and another type.
    #[test]
    fn no_argument_of_a_verb_has_the_id_of_a_global_flag() {
        fn ids(command: &clap::Command, found: &mut Vec<String>) {
            for verb in command.get_subcommands() {
                let args = verb.get_arguments();
                found.extend(args.map(|arg| arg.get_id().to_string()));
                ids(verb, found);
            }
        }
        let command = Cli::command();
        let mut found = Vec::new();
        ids(&command, &mut found);
        for arg in command.get_arguments().filter(|arg| arg.is_global_set()) {
            let id = arg.get_id().to_string();
            assert!(!found.contains(&id), "{id}");
        }
    }
}
