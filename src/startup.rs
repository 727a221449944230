//! Resets inherited state that a program must not depend on: signals that its parent blocked or ignored.

use nix::libc;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

/// Signals that end a program by default, and must not end this one. They get a handler and are not ignored, because an
/// ignored signal stays ignored over an `exec`, while a started program gets the default of a handled one back.
const HARMLESS: [Signal; 2] = [Signal::SIGXFSZ, Signal::SIGUSR1];

extern "C" fn nothing(_: libc::c_int) {}

/// Gives every signal its default action, except SIGPIPE, which stays ignored, and unblocks all. Otherwise a parent
/// that ignores SIGCHLD would hide every end of a child, and a parent that blocks SIGTERM would make the program deaf
/// to it. A file that grows past its limit (SIGXFSZ), or SIGUSR1 before its handler is set, must not end the program.
/// To be called before there are threads.
pub fn clean_signals() {
    let action = |handler, flags| SigAction::new(handler, flags, SigSet::empty());
    let default = action(SigHandler::SigDfl, SaFlags::empty());
    let harmless = action(SigHandler::Handler(nothing), SaFlags::SA_RESTART);
    for signal in Signal::iterator() {
        let action = match signal {
            Signal::SIGPIPE | Signal::SIGKILL | Signal::SIGSTOP => continue,
            signal if HARMLESS.contains(&signal) => &harmless,
            _ => &default,
        };
        // SAFETY: the handler does nothing at all.
        // A signal whose action cannot be changed keeps it.
        let _kept = unsafe { sigaction(signal, action) };
    }
    let none = SigSet::empty();
    // Cannot fail: the set is valid.
    let _never = none.thread_set_mask();
}
