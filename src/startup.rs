//! What a program is started with and must not depend on: signals that were blocked or ignored by
//! whatever started it.

use nix::libc;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

/// Signals that end a program which does not expect them, and whose default a started program gets
/// back: with a handler, and not ignored, because what is ignored stays ignored over an `exec`.
const HARMLESS: [Signal; 2] = [Signal::SIGXFSZ, Signal::SIGUSR1];

extern "C" fn nothing(_: libc::c_int) {}

/// Gives every signal its default action, but for SIGPIPE, which stays ignored, and blocks none. A
/// parent that ignores SIGCHLD would hide every end of a child, and one that blocks SIGTERM would make the
/// program deaf to it. A file that grows past its limit (SIGXFSZ), or SIGUSR1 before anything listens for
/// it, ends nothing. To be called before there are threads.
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
    // It cannot fail: the set is valid.
    let _never = none.thread_set_mask();
}
