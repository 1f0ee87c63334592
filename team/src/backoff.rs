//! How long a thread waits before it parks.

#[cfg(not(loom))]
pub use ordinary::Backoff;

#[cfg(loom)]
pub use modelled::Backoff;

#[cfg(not(loom))]
mod ordinary {
    use std::hint::spin_loop;
    use std::thread::yield_now;
    use std::time::{Duration, Instant};

    /// The time for which a thread spins before it yields.
    const SPIN: Duration = Duration::from_micros(20);
    /// The total time for which a thread waits before it parks.
    const YIELD: Duration = Duration::from_micros(2000);
    /// How often a thread spins between two reads of the clock.
    const POLLS: u32 = 64;
    /// How often a thread that never parks spins before it yields.
    const ENDLESS: u32 = 20_000;

    /// The waiting of one thread for one event: it spins, then yields, then gives up.
    pub struct Backoff {
        polls: u32,
        patience: Patience,
    }

    enum Patience {
        /// It gives up at once.
        None,
        /// It gives up some time after this moment.
        Since(Instant),
        /// It never gives up.
        Endless,
    }

    impl Backoff {
        /// Starts waiting with a time limit.
        pub fn new() -> Self {
            Self { polls: 0, patience: Patience::Since(Instant::now()) }
        }

        /// Starts waiting without a time limit: it spins, then yields as often as necessary.
        pub fn endless() -> Self {
            Self { polls: 0, patience: Patience::Endless }
        }

        /// Parks at once.
        pub fn none() -> Self {
            Self { polls: 0, patience: Patience::None }
        }

        /// Waits a little. Returns false when it is time to park.
        pub fn wait(&mut self) -> bool {
            self.polls = self.polls.saturating_add(1);
            let start = match self.patience {
                Patience::None => return false,
                Patience::Since(start) => start,
                Patience::Endless if self.polls < ENDLESS => {
                    spin_loop();
                    return true;
                }
                Patience::Endless => {
                    yield_now();
                    return true;
                }
            };
            if !self.polls.is_multiple_of(POLLS) {
                spin_loop();
                return true;
            }
            let waited = start.elapsed();
            if waited < SPIN {
                spin_loop();
            } else if waited < YIELD {
                yield_now();
            } else {
                return false;
            }
            true
        }
    }
}

#[cfg(loom)]
mod modelled {
    /// The waiting of one thread for one event. The model has no clock, so waiting with a limit ends at once.
    pub struct Backoff {
        endless: bool,
    }

    impl Backoff {
        pub fn new() -> Self {
            Self { endless: false }
        }

        pub fn none() -> Self {
            Self::new()
        }

        pub fn endless() -> Self {
            Self { endless: true }
        }

        pub fn wait(&mut self) -> bool {
            if self.endless {
                loom::thread::yield_now();
            }
            self.endless
        }
    }
}
