//! The text form of a graph: print, parse, round trip.
