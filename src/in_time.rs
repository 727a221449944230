//! Looks at places whose disk may hang: no timeout ends a call to such a disk, so it is made on a thread that is left behind.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Does the work on a thread of its own, and returns its result; none if there is none within the limit, or no thread could be
/// started. The thread continues then, until its disk answers.
pub fn in_time<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (tell, told) = mpsc::channel();
    let work = move || {
        // The caller may have given it up.
        let _given_up = tell.send(work());
    };
    let thread = thread::Builder::new().name("look".to_owned()).spawn(work);
    thread.ok().and_then(|_| told.recv_timeout(limit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_has_a_result_unless_it_takes_too_long_or_panics() {
        const LONG: Duration = Duration::from_secs(60);
        assert_eq!(in_time(LONG, || 1), Some(1));
        let (tell, told) = mpsc::channel::<()>();
        let hangs = move || told.recv().is_ok();
        assert_eq!(in_time(Duration::from_millis(10), hangs), None);
        drop(tell);
        assert_eq!(in_time(LONG, || panic!("in a look")), None::<()>);
    }
}
