//! The test program as a process whose first thread has ended while another runs: the kernel shows it as a zombie, which
//! it is not.

use std::path::Path;
use std::process::Command;

use nix::libc;

/// The variable that makes the test program such a process. It begins with its pid in the file `pid`.
const VARIABLE: &str = "HD_TEST_FIRST_THREAD";

#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = end_if_asked;

extern "C" fn end_if_asked() {
    if std::env::var_os(VARIABLE).is_none() {
        return;
    }
    std::thread::spawn(|| {
        std::fs::write("pid.new", std::process::id().to_string()).expect("its pid is written");
        // The first thread has ended by then.
        let stat = || crate::adapters::proc::stat(std::process::id());
        while stat().is_ok_and(|stat| stat.is_some_and(|stat| stat.state != b'Z')) {
            std::thread::yield_now();
        }
        std::fs::rename("pid.new", "pid").expect("its pid is named");
        loop {
            std::thread::park();
        }
    });
    // SAFETY: it ends this thread only, which owns nothing that the other uses.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
}

/// Returns the line of a shell that runs such a process, with nothing else in its environment.
pub fn line() -> String {
    let program = std::env::current_exe().expect("a test has a program");
    format!("env -i {VARIABLE}=ends {}", program.display())
}

/// Makes the command that is such a process, and works in this directory.
pub fn command(dir: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a test has a program"));
    command.env(VARIABLE, "ends").current_dir(dir);
    command
}
