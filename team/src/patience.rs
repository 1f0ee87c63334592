//! How long a thread waits before it parks.

#[cfg(not(loom))]
pub use ordinary::Patience;

#[cfg(loom)]
pub use modelled::Patience;

#[cfg(not(loom))]
mod ordinary {
    use std::hint::spin_loop;
    use std::thread::yield_now;
    use std::time::{Duration, Instant};

    /// How long a thread spins before it yields.
    const SPIN: Duration = Duration::from_micros(20);
    /// How long a thread waits in all before it parks.
    const YIELD: Duration = Duration::from_micros(2000);
    /// How often a thread spins between two looks at the clock.
    const POLLS: u32 = 64;
    /// How often a thread spins, which never parks, before it yields.
    const ENDLESS: u32 = 20_000;

    /// The wait of one thread for one event: it spins, then yields, then is over.
    pub struct Patience {
        polls: u32,
        /// When it began, unless it never ends.
        start: Option<Instant>,
    }

    impl Patience {
        /// A wait that ends.
        pub fn new() -> Self {
            Self { polls: 0, start: Some(Instant::now()) }
        }

        /// A wait that spins, then yields as long as it takes.
        pub fn endless() -> Self {
            Self { polls: 0, start: None }
        }

        /// Waits a little; false when it is time to park.
        pub fn wait(&mut self) -> bool {
            self.polls = self.polls.saturating_add(1);
            let Some(start) = self.start else {
                if self.polls < ENDLESS {
                    spin_loop()
                } else {
                    yield_now()
                }
                return true;
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
    /// The wait of one thread for one event. The model knows no time: a wait that ends is over at once.
    pub struct Patience {
        endless: bool,
    }

    impl Patience {
        pub fn new() -> Self {
            Self { endless: false }
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
