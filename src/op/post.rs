//! Post chains: steps on a result.
