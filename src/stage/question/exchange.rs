//! A priced e-graph for other extractors: `dump --egraph`.

use crate::extract::Named;
use crate::stage::Priced;

impl Priced<'_> {
    /// Returns the problem with the names of its ops and values, for files that other extractors read. It contains no
    /// prices of copies that a plan may add.
    pub fn named(&self) -> Named {
        self.pick.named()
    }
}
