//! Calls that hang until the test lets them go.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// A place where calls hang. Dropping the first handle releases them, so that a failed test ends.
#[derive(Default)]
pub struct Hang(Door);

/// A handle for the calls.
#[derive(Clone, Default)]
pub struct Door(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    entered: usize,
    open: bool,
}

impl Hang {
    /// Returns the handle for the calls.
    #[must_use]
    pub fn door(&self) -> Door {
        self.0.clone()
    }

    /// Returns the number of calls that have come here.
    #[must_use]
    pub fn entered(&self) -> usize {
        let state = self.0.0.0.lock();
        state.unwrap_or_else(PoisonError::into_inner).entered
    }

    /// Lets all calls go on, from now on.
    pub fn release(&self) {
        let (state, changed) = &*self.0.0;
        state.lock().unwrap_or_else(PoisonError::into_inner).open = true;
        changed.notify_all();
    }
}

impl Drop for Hang {
    fn drop(&mut self) {
        self.release();
    }
}

impl Door {
    /// Blocks the thread until the calls are released.
    pub fn enter(&self) {
        let (state, changed) = &*self.0;
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        state.entered += 1;
        let released = changed.wait_while(state, |state| !state.open);
        drop(released.unwrap_or_else(PoisonError::into_inner));
    }
}
