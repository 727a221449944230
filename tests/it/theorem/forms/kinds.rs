//! The forms, in the order in which an agent makes them.

/// Defines the enumeration and the list of its values.
macro_rules! forms {
    ($($name:ident),* $(,)?) => {
        /// A form.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Form {
            $($name,)*
        }

        impl Form {
            /// Every form, in the order in which an agent makes them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];
        }
    };
}

forms! {
    // Made first: these move HEAD.
    Orphan,
    Aside,
    Left,
    Elsewhere,
    Backup,
    Ahead,
    Amended,
    ReflogOnly,
    OwnRef,
    Grafted,
    Replaced,
    Forged,
    StashTaken,
    Stash,
    Detached,
    Bisect,
    Sparse,
    Rebase,
    Autostash,
    Merge,
    CherryPick,
    Revert,
    // Work in index and files.
    Submodule,
    SubmoduleLeft,
    SubmoduleGone,
    SubmoduleRemoved,
    Nested,
    OwnWorktree,
    HiddenWorktree,
    HiddenClone,
    Conflict,
    Skip,
    Assume,
    Staged,
    StagedOnly,
    Renamed,
    Intent,
    // Work where git does not look.
    LossyFilter,
    NoDriver,
    FilterGone,
    IgnoreCase,
    SameStat,
    NoModes,
    UserNoModes,
    Monitor,
    Exclude,
    SplitIndex,
    Told,
    GitCase,
    GitmodulesLink,
    OnlyLooks,
    BrokenClone,
    BareInside,
    Separate,
    SeparateHidden,
    DeepHidden,
    HiddenInNested,
    CopiedLink,
    TooDeep,
    Pipes,
    Deleted,
    Dirty,
    Modes,
    TypeChange,
    Symlink,
    LineEndings,
    OddNames,
    Untracked,
    OwnTask,
    Ignored,
    Locked,
    Collected,
    RefLocks,
    // After these, git works no more.
    StaleLocks,
    BareConfig,
    Garbage,
    AdminGone,
    LinkElsewhere,
    OtherGit,
    AdminPipes,
    Clean,
}

impl Form {
    /// Returns whether git has a setting under which it overlooks work.
    pub(super) fn is_told(self) -> bool {
        (Self::LossyFilter..=Self::Told).contains(&self)
    }

    /// Returns whether the form is a repository that git passes over, or looks like one.
    pub(super) fn is_odd(self) -> bool {
        (Self::GitCase..=Self::Pipes).contains(&self)
    }

    /// Returns whether git no longer works in the sandbox.
    pub fn is_ruin(self) -> bool {
        (Self::StaleLocks..=Self::AdminPipes).contains(&self)
    }

    /// Returns whether the form is made of more than the acts of the agent in its own sandbox: it is never added to
    /// another form by chance.
    pub fn is_staged_around(self) -> bool {
        matches!(
            self,
            Self::StashTaken | Self::UserNoModes | Self::Collected | Self::RefLocks
        )
    }
}
